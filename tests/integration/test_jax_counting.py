"""JAX's calls return before their work is done; what the launcher counts is the work."""

import importlib.util
import json
from pathlib import Path

import pytest

from launch_parts import launch

PROGRAM = """
import json, time
import jax, jax.numpy as jnp
@jax.jit
def step(x, scale):
    for _ in range(12):
        x = jnp.tanh(x @ x) * scale
    return x, x.sum()
x = jnp.ones((600, 600)) / 600
x, total = step(x, 0.5)
total.block_until_ready()
start = time.perf_counter()
for _ in range(40):
    x, total = step(x, 0.5)
total.block_until_ready()
print(json.dumps((time.perf_counter() - start) / 40))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_the_steady_time_is_that_of_the_work(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = launch(tmp_path / "program.py", tmp_path, {"trials": {"mode": "none"}})
    assert done.returncode == 0, done.stderr
    each = json.loads(done.stdout.splitlines()[-1])
    counted = next(entry for entry in done.entries if entry.get("name") == "jax: step")
    assert counted["units"] == 41
    assert counted["steady"] == pytest.approx(each, rel=0.5)
    assert counted["features"]["flops"] == 12 * 2 * 600**3


TWO = """
import jax, jax.numpy as jnp
train, evaluate = jax.jit(lambda x: x @ x), jax.jit(lambda x: x @ x @ x)
for _ in range(4):
    train(jnp.ones((4, 4))), evaluate(jnp.ones((4, 4)))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_functions_of_one_name_are_not_described(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TWO)
    done = launch(tmp_path / "program.py", tmp_path, {"trials": {"mode": "none"}})
    assert done.returncode == 0, done.stderr
    counted = next(entry for entry in done.entries if entry.get("name") == "jax: <lambda>")
    assert counted["units"] == 8
    assert not counted.get("features")


NOT_COMPILED = {
    "jax": """
import jax, jax.numpy as jnp
jax.config.update("jax_disable_jit", True)
seen = []
@jax.jit
def step(x):
    seen.append(float((x @ x).sum()))
    return x
for _ in range(5):
    step(jnp.ones((2, 2)))
print(seen)
""",
    "tensorflow": """
import tensorflow as tf
tf.config.run_functions_eagerly(True)
seen = []
@tf.function
def step(x):
    seen.append(float(tf.reduce_sum(x @ x)))
    return x
for _ in range(5):
    step(tf.ones((2, 2)))
print(seen)
""",
}


@pytest.mark.parametrize("framework", sorted(NOT_COMPILED))
def test_a_function_that_is_not_compiled_runs_as_often_as_it_is_called(framework: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    (tmp_path / "program.py").write_text(NOT_COMPILED[framework])
    done = launch(tmp_path / "program.py", tmp_path, {"trials": {"mode": "live"}})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([8.0] * 5)
    assert any(entry.get("units") == 5 for entry in done.entries)
    assert not any(entry.get("features") for entry in done.entries)


SLOW_TO_COMPILE = """
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
folder = jax.config.jax_compilation_cache_dir
hits = []
jax.monitoring.register_event_listener(lambda name, **more: hits.append(name) if name.endswith("cache_hits") else None)
@jax.jit
def step(x):
    return jnp.tanh(x @ x)
x = jnp.ones((8, 8))
for _ in range(20):
    x = step(x).block_until_ready()
print(folder, len(hits), float(x.sum()))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.parametrize("counts", [True, False])
def test_what_one_job_compiled_the_next_one_reads(counts: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW_TO_COMPILE)
    runs = []
    for job in ("first", "second"):
        (tmp_path / job).mkdir()
        config = {"trials": {"mode": "none"}, "cache": str(tmp_path / job / ".." / "cache"), "counts": counts}
        runs.append(launch(tmp_path / "program.py", tmp_path, config))
    first, second = runs
    (folder, none, result), (same, hits, again) = (done.stdout.split()[-3:] for done in (first, second))
    assert folder == same and Path(folder).is_relative_to(tmp_path / "cache" / "compiled")
    assert (none, result) == ("0", again) and int(hits) > 0, second.stderr
    assert any(entry.get("name") == "jax: step" for entry in second.entries) is counts


CALLED_BACK = """
import faulthandler, os
faulthandler.dump_traceback_later(100, exit=True)
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"  # of one, JAX waits for each call itself
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
@jax.jit
def twice(x):
    return x * 2
def of_the_host(x):
    return np.float32(twice(np.float32(3.0)))
def half(x):
    y = jax.pure_callback(of_the_host, jax.ShapeDtypeStruct((), jnp.float32), x[0, 0])
    return x * 0.5 + y * 0.0
mesh, rows = Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d")
step = jax.jit(jax.shard_map(half, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False))
of_the_host(None)
x = jax.device_put(jnp.ones((1000, 1000)), NamedSharding(mesh, rows))
for _ in range(20):
    x = step(x)
print(float(jax.device_get(x)[0, 0]))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_what_a_call_calls_back_does_not_wait_for_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CALLED_BACK)
    done = launch(tmp_path / "program.py", tmp_path, {"trials": {"mode": "none"}})
    assert done.returncode == 0, done.stderr
    assert {"jax: half", "jax: twice"} <= {entry.get("name") for entry in done.entries}
