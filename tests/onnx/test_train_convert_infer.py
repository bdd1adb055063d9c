"""Train, convert, infer: as one playbook on this machine and on a real Slurm, and as one blueprint by xOpera."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modak_deploy.onnx.bundle import read_bundle
from orchestrator import BLUEPRINTS, Orchestrator, connection
from rig import TOP, Rig

PLAY = TOP / "examples" / "inference" / "play.yml"
JOB_ENVIRONMENT = {"PYTHONPATH": str(TOP)}
"""A user's Python on the target has modak installed; the tests' has it from the checkout."""


def assert_classified(train: Path, infer: Path, bundle: Path) -> None:
    """Check that the job's predictions are those of the networks that were trained."""
    expected, given = np.load(train / "expected.npz"), np.load(infer / "predictions.npz")
    np.testing.assert_allclose(given["probabilities"], expected["probabilities"], atol=1e-5)
    assert (given["probabilities"].argmax(1) == expected["labels"]).mean() > 0.8
    read = read_bundle(bundle)
    read.verify()
    assert [model.validation.status for model in read.manifest.models] == ["passed", "passed"]


def play(folder: Path, environment: dict[str, str], *arguments: str, **variables: Any) -> dict[str, Any]:
    """Run the example's playbook; return Ansible's counts for its host."""
    given = {"results": str(folder / "results"), "environment_of_jobs": JOB_ENVIRONMENT, **variables}
    done = subprocess.run(
        ["ansible-playbook", str(PLAY), *arguments, "-e", json.dumps(given)],
        cwd=folder,
        env={**environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    counts = done.stdout.rsplit("PLAY RECAP", 1)[1]
    return {word.split("=")[0]: int(word.split("=")[1]) for word in counts.split() if "=" in word}


def test_a_playbook_on_this_machine(tmp_path: Path, environment: dict[str, str]) -> None:
    target = {"name": "localhost", "type": "machine", "workspace": str(tmp_path / "workspace")}
    options = ["-e", f"ansible_python_interpreter={sys.executable}", "-e", "ansible_connection=local"]
    checked = play(tmp_path, environment, *options, target=target, epochs=5)
    assert checked["changed"] > 0
    results = tmp_path / "results"
    assert_classified(results / "digits-train", results / "digits-infer", results / "digits.bundle")
    assert play(tmp_path, environment, *options, target=target, epochs=5)["changed"] == 0
    assert play(tmp_path, environment, "--check", *options, target=target, epochs=5)["changed"] == 0
    (results / "digits.bundle" / "models" / "small" / "model.onnx").write_bytes(b"damaged")
    assert play(tmp_path, environment, *options, target=target, epochs=5)["changed"] > 0
    assert_classified(results / "digits-train", results / "digits-infer", results / "digits.bundle")


def test_a_playbook_on_slurm(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, keras_python: str) -> None:
    target = {"name": "slurm-login", "type": "slurm", "python": keras_python}
    options = ["-i", str(real_slurm.inventory)]
    variables = {"target": target, "target_host": "slurm-login", "job": {"wall_time": "10m", "partition": "cpu"}}
    play(tmp_path, environment, *options, epochs=6, **variables)
    results = tmp_path / "results"
    assert_classified(results / "digits-train", results / "digits-infer", results / "digits.bundle")
    assert play(tmp_path, environment, *options, epochs=6, **variables)["changed"] == 0


def test_a_blueprint_on_slurm(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, keras_python: str) -> None:
    pytest.importorskip("opera", reason="xOpera is not installed")
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "inference-slurm.yaml")
    opera.inputs(python=keras_python, partition="cpu", epochs=7, environment=JOB_ENVIRONMENT, **connection(real_slurm))
    deployed = opera.deploy(timeout=400)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert outputs["state"] == "completed"
    assert_classified(opera.results / "train", Path(outputs["results_path"]), Path(outputs["bundle"]))
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not Path(outputs["bundle"]).exists()
