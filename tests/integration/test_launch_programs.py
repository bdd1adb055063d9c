"""Unchanged programs with real frameworks under the launcher."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from launch_parts import OWN_EXCEPTION, launch

EXAMPLES = Path(__file__).parents[2] / "examples"
LIVE = {"trials": {"mode": "live", "numerics": "relaxed", "share": 1.0}}


def needs(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


def states(done):
    return {entry["name"]: entry for entry in done.entries if entry["event"] == "state"}


def of(done, event):
    return [entry for entry in done.entries if entry["event"] == event]


def test_the_inference_example_is_counted_and_tried(tmp_path):
    needs("torch")
    script = EXAMPLES / "pytorch-inference" / "infer.py"
    arguments = ["--blocks", "1", "1", "--size", "32", "--batch", "2", "--batches", "600"]
    config = {**LIVE, "trials": {**LIVE["trials"], "candidates": ["pytorch-channels-last", "pytorch-bf16-weights"]}}
    done = launch([sys.executable, str(script), *arguments], tmp_path, config, bf16=True)
    assert done.returncode == 0, done.stderr
    assert "600 batches" in done.stdout
    state = states(done)["inference: Sequential"]
    assert state["units"] == 600
    assert state["start"] > 0 and state["steady"] > 0
    tried = [entry["lever"] for entry in of(done, "trying")]
    assert tried[:2] == ["pytorch-channels-last", "pytorch-bf16-weights"]
    assert not any(tried[2:])  # where both are kept, the second one is tried alone
    assert of(done, "trial")[0]["difference"] < 1e-4
    assert of(done, "end")


def test_the_training_example_is_counted_and_its_workers_are_not(tmp_path):
    needs("torch")
    script = EXAMPLES / "pytorch-training" / "train.py"
    config = {"levers": ["pytorch-dataloader-workers", "pytorch-fused-optimizer"], "trials": {"mode": "none"}}
    arguments = ["--epochs", "1", "--samples", "320", "--batch", "32"]
    done = launch([sys.executable, str(script), *arguments], tmp_path, config)
    assert done.returncode == 0, done.stderr
    assert len(done.records) == 1
    state = states(done)["training: Net"]
    assert state["units"] == 10
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert state["loss"] == pytest.approx(metrics["loss"], rel=1e-4)
    assert [entry["variant"] for entry in of(done, "chosen")] == ["pytorch-fused-optimizer"]


def test_levers_are_tried_in_the_training_example(tmp_path):
    needs("torch")
    script = EXAMPLES / "pytorch-training" / "train.py"
    config = {**LIVE, "trials": {**LIVE["trials"], "candidates": ["pytorch-fused-optimizer"]}}
    done = launch(
        [sys.executable, str(script), "--epochs", "1", "--samples", "2560", "--batch", "16"], tmp_path, config
    )
    assert done.returncode == 0, done.stderr
    assert not of(done, "no_trials")
    (trial, *_) = of(done, "trial")
    assert trial["variant"] == "pytorch-fused-optimizer" and trial["times"]


CLOSURE = """
import torch
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
def closure():
    optimizer.zero_grad()
    loss = (weight**2).sum()
    loss.backward()
    return loss
for step in range(5):
    optimizer.step(closure)
"""


def test_an_optimizer_that_calls_a_closure_is_only_counted(script, tmp_path):
    needs("torch")
    done = launch(script(CLOSURE), tmp_path, LIVE)
    assert done.returncode == 0, done.stderr
    assert states(done)["training: SGD"]["units"] == 5
    assert not of(done, "trying")


def test_under_torchrun_the_ranks_are_counted_and_try_nothing(tmp_path):
    needs("torch")
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    script = EXAMPLES / "pytorch-training" / "train.py"
    arguments = ["--epochs", "1", "--samples", "160", "--batch", "32"]
    command = [torchrun, "--standalone", "--nproc-per-node", "2", str(script), *arguments]
    done = launch(command, tmp_path, LIVE)
    assert done.returncode == 0, done.stderr
    units = [entry["units"] for entry in done.entries if entry.get("name") == "training: Net"]
    assert units == [5, 5]
    assert not of(done, "trying")


OWN_COMPILE = """
import torch
model = torch.nn.Linear(4, 4).eval()
compiled = torch.compile(model, backend="eager")
with torch.no_grad():
    for _ in range(20):
        compiled(torch.ones(2, 4))
        model(torch.ones(2, 4))
print(type(compiled).__name__)
"""

FORKED_CHILD = """
import os, torch
model = torch.nn.Linear(4, 4).eval()
def work(calls):
    with torch.no_grad():
        for _ in range(calls):
            model(torch.ones(2, 4))
work(5)
child = os.fork()
if not child:
    work(100)
    os._exit(0)
os.waitpid(child, 0)
work(5)
"""

SAVES = """
import copy, io, pickle, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
with torch.no_grad():
    for _ in range(30):
        result = model(torch.ones(2, 4))
buffer = io.BytesIO()
torch.save(model, buffer)
print(b"modak" in buffer.getvalue(), torch.equal(copy.deepcopy(model)(torch.ones(2, 4)), model[0](torch.ones(2, 4))))
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        (tmp_path / "program.py").write_text(text)
        return tmp_path / "program.py"

    return write


def test_a_program_that_compiles_itself_is_left_alone(script, tmp_path):
    needs("torch")
    done = launch(script(OWN_COMPILE), tmp_path, LIVE)
    assert (done.stdout, done.stderr) == ("OptimizedModule\n", "")
    assert not of(done, "trying")


def test_a_forked_child_is_not_counted(script, tmp_path):
    needs("torch")
    done = launch(script(FORKED_CHILD), tmp_path, {"trials": {"mode": "none"}})
    assert states(done)["inference: Linear"]["units"] == 10


def test_saved_modules_do_not_need_the_launcher(script, tmp_path):
    needs("torch")
    done = launch(script(SAVES), tmp_path, LIVE)
    assert done.stdout == "False True\n", done.stderr


def test_an_exception_of_the_programs_reaches_it_unchanged(script, tmp_path):
    needs("torch")
    done = launch(script(OWN_EXCEPTION), tmp_path, LIVE)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith('KeyError: "the program\'s own"')
    assert "During handling" not in done.stderr


KERAS = """
import numpy, keras
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(loss="mse", optimizer="sgd")
model.fit(numpy.ones((64, 4)), numpy.ones((64, 2)), batch_size=8, epochs=2, verbose=0)
model.predict(numpy.ones((64, 4)), batch_size=16, verbose=0)
print(keras.config.dtype_policy().name, model.steps_per_execution, model.jit_compile)
"""


@pytest.mark.parametrize("steps", [4, 3, 16])
def test_keras_batches_are_counted_and_its_levers_set(steps, script, tmp_path):
    needs("keras")
    needs("tensorflow")
    names = ["keras-mixed-bfloat16", "keras-jit-compile", "keras-steps-per-execution"]
    settings = {"keras-jit-compile": {"value": False}, "keras-mixed-bfloat16": {"policy": "mixed_bfloat16"}}
    settings["keras-steps-per-execution"] = {"steps": steps}
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_HOME": str(tmp_path)}
    config = {"levers": names, "settings": settings}
    done = launch(script(KERAS), tmp_path, config, environment=environment)
    assert done.stdout.splitlines()[-1:] == [f"mixed_bfloat16 {steps} False"], done.stderr
    counted = states(done)
    assert counted["keras: train"]["units"] == 16
    assert counted["keras: predict"]["units"] == 4
    assert [entry["lever"] for entry in of(done, "lever")] == sorted(names)


def test_jaxs_matrix_precision_is_set(script, tmp_path):
    needs("jax")
    text = "import jax; print(jax.config.jax_default_matmul_precision, jax.config.jax_compilation_cache_dir)"
    config = {"levers": ["jax-matmul-precision"], "cache": str(tmp_path / "cache")}
    done = launch(script(text), tmp_path, config)
    (folder,) = (tmp_path / "cache" / "compiled").glob("jax-*")
    assert done.stdout == f"bfloat16 {folder}\n", done.stderr


def test_a_missing_extension_of_scikit_learn_is_one_line(script, tmp_path):
    needs("sklearn")
    if importlib.util.find_spec("sklearnex"):
        pytest.skip("the extension is installed")
    text = "from sklearn.linear_model import LinearRegression; print(LinearRegression.__module__)"
    done = launch(script(text), tmp_path, {"levers": ["sklearn-sklearnex"]})
    assert done.stdout.startswith("sklearn.linear_model"), done.stderr
    assert "modak: sklearn-sklearnex is not used: the module sklearnex is not installed" in done.stderr


def test_the_command_line_runs_a_program_under_the_launcher(script, tmp_path):
    import subprocess

    program = script(
        "import sys; import modak_launch.session as s; print(s.current().config.trials.numerics); sys.exit(4)"
    )
    command = [sys.executable, "-m", "modak_deploy.launch", "--numerics", "relaxed", "--", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("relaxed\n", 4)


SLOW_END = """
import os, signal, sys, time

def end(number, frame):
    time.sleep(1)
    os.write(1, b"saved %d\\n" % number)  # the signal may come while print is at work
    sys.exit(5)

signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [2, 15])
def test_signals_to_the_command_line_are_the_programs(script, number):
    import os
    import subprocess

    command = [sys.executable, "-m", "modak_deploy.launch", "--", sys.executable, str(script(SLOW_END))]
    done = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert done.stdout.readline() == "runs\n"
    (os.killpg if number == 2 else os.kill)(done.pid, number)  # a terminal sends SIGINT to all processes
    assert done.communicate(timeout=60)[0] == f"saved {number}\n"
    assert done.returncode == 5


def test_a_command_that_is_not_there_is_told(tmp_path):
    import subprocess

    command = [sys.executable, "-m", "modak_deploy.launch", "--", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (127, f"{tmp_path / 'none'}: No such file or directory\n")
