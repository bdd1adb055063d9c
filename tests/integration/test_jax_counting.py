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
