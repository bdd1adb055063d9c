"""xOpera on every blueprint to start from: deploy, outputs, update, undeploy, on this machine and on a real Slurm."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.discovery import parse_probe, probe_script
from modak_deploy.performance.records import read_records
from modak_deploy.performance.store import Store
from modak_deploy.transport.local import LocalTransport
from orchestrator import BLUEPRINTS, Orchestrator, connection, folders, nothing_left
from rig import Rig

OUTPUTS = {
    "job_id", "state", "runtime", "image", "interpreter", "chosen",
    "predicted_seconds", "measured_seconds", "accuracy", "results_path",
}  # fmt: skip


def assert_trained(outputs: dict[str, Any], results: Path, accuracy: float = 0.5) -> None:
    assert outputs.keys() == OUTPUTS
    assert outputs["job_id"]
    assert (outputs["state"], outputs["runtime"], outputs["image"]) == ("completed", "native", "")
    assert outputs["predicted_seconds"] > 0
    assert outputs["measured_seconds"] > 0
    assert outputs["accuracy"] > accuracy
    assert Path(outputs["results_path"]).is_relative_to(results)
    assert (Path(outputs["results_path"]) / "metrics.json").exists()


def assert_updates(opera: Orchestrator, given: dict[str, Any], changed: str) -> dict[str, Any]:
    """Check that an update with other inputs runs another job, and return its outputs; ``changed`` is an output."""
    before = opera.outputs()[changed]
    opera.inputs(**given)
    updated = opera.run("update", "-i", "inputs.yaml", str(opera.blueprint), timeout=300)
    assert updated.code == 0, updated.text
    outputs = opera.outputs()
    assert outputs[changed] != before
    return outputs


def test_digits_on_this_machine(tmp_path: Path, environment: dict[str, str]) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-machine.yaml")
    given = {"python": sys.executable, "workspace": str(tmp_path / "workspace")}
    opera.inputs(epochs=2, **given)
    validated = opera.run("validate", "--executors", "-i", "inputs.yaml", str(opera.blueprint))
    assert validated.code == 0, validated.text
    deployed = opera.deploy(timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert_trained(outputs, opera.results)
    assert outputs["interpreter"] == sys.executable
    assert "already been deployed" in opera.deploy().text
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert folders(tmp_path / "workspace") == []
    assert (Path(outputs["results_path"]) / "metrics.json").exists(), "results on the controller stay"


def test_digits_on_slurm(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, keras_python: str) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-slurm.yaml")
    given = {"python": keras_python, "partition": "cpu", **connection(real_slurm)}
    with nothing_left(real_slurm.home / ".modak"):
        opera.inputs(epochs=2, **given)
        deployed = opera.deploy(timeout=300)
        assert deployed.code == 0, deployed.text
        outputs = opera.outputs()
        assert_trained(outputs, opera.results)
        assert outputs["interpreter"] == keras_python
        assert real_slurm.ended(outputs["job_id"]) == ("digits", "COMPLETED")
        assert assert_updates(opera, {"epochs": 1, **given}, "job_id")["state"] == "completed"
        assert opera.run("undeploy").code == 0


@pytest.mark.long
def test_digits_on_torque(tmp_path: Path, environment: dict[str, str], torque: Rig, keras_python: str) -> None:
    assert "Unknown option: version" in torque.ssh("qsub --version 2>&1 || true")
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-torque.yaml")
    given = {"python": keras_python, "queue": "cpu", **connection(torque)}
    with nothing_left(torque.home / ".modak"):
        opera.inputs(epochs=1, **given)
        deployed = opera.deploy(timeout=300)
        assert deployed.code == 0, deployed.text
        outputs = opera.outputs()
        assert_trained(outputs, opera.results, 0.3)
        plan = json.loads((Path(outputs["results_path"]) / "plan.json").read_text())
        assert (plan["target"]["type"], plan["facts"]["wrapped"], plan["scheduler"]) == ("torque", True, "slurm")
        assert torque.ended(outputs["job_id"]) == ("digits", "COMPLETED")
        assert assert_updates(opera, {"epochs": 2, **given}, "job_id")["state"] == "completed"
        undeployed = opera.run("undeploy")
        assert undeployed.code == 0, undeployed.text


def measured_on_slurm(folder: Path, seconds: float) -> str:
    """Return the address of a store in which digits took so long on a node of the rig, and ten times as long here.

    The rig is this machine, and says that it has 8 cores. What is carried over from there to here by the hardware's
    figures has an interval that reaches the node's own time on some processors.
    """
    here = parse_probe(LocalTransport().run(probe_script(None)).stdout, None).node
    record: dict[str, Any] = {
        "schema": "modak.measurement/1",
        "type": "ai_training",
        "framework": "keras",
        "workload": {"model": "mnist-cnn", "unit": "epoch", "units": 1},
        "configuration": {"levers": ["keras-tensorflow"]},
        "hardware": {"microarchitecture": here.microarchitecture, "cpu_model": here.cpu_model, "cores": 8},
        "provenance": {"source": "test_opera.py", "date": "2026-01-01", "method": "invented"},
        "runs": [{"total": seconds + n / 1000} for n in range(5)],
    }
    hardware = {**record["hardware"], "cores": here.cores}
    slower = {**record, "hardware": hardware, "runs": [{"total": 10 * seconds + n / 1000} for n in range(5)]}
    (folder / "records.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(slower) + "\n")
    store = Store(f"sqlite:///{folder}/store.sqlite")
    assert store.add(read_records(folder / "records.jsonl")) == (2, 0)
    return f"sqlite:///{folder}/store.sqlite"


def test_the_plan_takes_the_faster_of_two_targets(
    tmp_path: Path, environment: dict[str, str], real_slurm: Rig, keras_python: str
) -> None:
    """Nothing speaks for Slurm, until it was measured there: then an update moves the job."""
    opera = Orchestrator(tmp_path, dict(environment), BLUEPRINTS / "digits-two-targets.yaml")
    workspace = tmp_path / "workspace"
    given = {
        "machine_python": sys.executable,
        "machine_workspace": str(workspace),
        "python": keras_python,
        **connection(real_slurm),
    }
    with nothing_left(real_slurm.home / ".modak"):
        opera.environment["MODAK_MEASUREMENTS"] = f"sqlite:///{tmp_path}/none.sqlite"
        opera.inputs(epochs=2, **given)
        deployed = opera.deploy(timeout=300)
        assert deployed.code == 0, deployed.text
        assert (opera.outputs()["target"], opera.outputs()["state"]) == ("machine", "completed")
        opera.environment["MODAK_MEASUREMENTS"] = measured_on_slurm(tmp_path, 0.5)
        outputs = assert_updates(opera, {"epochs": 1, **given}, "job_id")
        assert (outputs["target"], outputs["state"], outputs["interpreter"]) == ("cluster", "completed", keras_python)
        assert real_slurm.ended(outputs["job_id"]) == ("digits", "COMPLETED")
        (other,) = json.loads((Path(outputs["results_path"]) / "plan.json").read_text())["other_targets"]
        assert other["target"]["name"] == "machine"
        assert folders(workspace) == [], "the job of before is gone"
        undeployed = opera.run("undeploy")
        assert undeployed.code == 0, undeployed.text


def test_node_types_of_sodalite(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, archive: str) -> None:
    """Ready scripts, one with what only a template language would take for its own, and a program that its job builds.

    The scheduler is left to be found: 'batch' is the node type's default.
    """
    shutil.copytree(BLUEPRINTS / "modak", tmp_path / "b" / "modak")
    text = (BLUEPRINTS / "sodalite-slurm.yaml").read_text()
    build = f"""
        build:
          src: {archive}
          build_command: mv solve.sh.in solve.sh; chmod +x solve.sh
        executable: solver/solve.sh"""
    for old, new in [
        ("\n        scheduler: slurm", ""),
        ("echo 42 >", "A=(1 2); echo '{{ 6 * 7 }}' ${#A[@]} >"),
        ("\n        executable: /bin/cat", build),
        ("~/sodalite", f"~/{tmp_path.name}"),
        ("${HOME}/sodalite", f"${{HOME}}/{tmp_path.name}"),
        ('while read -r number; do echo "$((number * number))"; done', "sed s/2/3/"),
    ]:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "b" / "s.yaml").write_text(text)
    opera = Orchestrator(tmp_path, environment, tmp_path / "b" / "s.yaml")
    way = connection(real_slurm)
    given = {"frontend-address": way["host"], "frontend-key": way["private_key"]}
    given |= {name: way[name] for name in ("user", "port", "known_hosts")}
    with nothing_left(real_slurm.home / ".modak"):
        opera.inputs(**given)
        deployed = opera.deploy()
        assert deployed.code == 0, deployed.text
        outputs = assert_updates(opera, {"wall_time": "00:05:00", **given}, "job_id")
        assert outputs["state"] == "completed"
        told = (Path(outputs["results_path"]) / "report.txt").read_text().splitlines()
        home = f"{real_slurm.home}/{tmp_path.name}/case"
        assert told[-1] == f"rank 0 of 1: {home}/answer {home}/square"
        assert (real_slurm.home / tmp_path.name / "case" / "square").read_text() == "{{ 6 * 7 }} 3\n"
        assert real_slurm.ended(outputs["job_id"]) == ("report", "COMPLETED")
        undeployed = opera.run("undeploy")
        assert undeployed.code == 0, undeployed.text


@pytest.mark.parametrize("updates", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_workflow_passes_results_on(tmp_path: Path, environment: dict[str, str], updates: bool) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "workflow-machine.yaml")
    given = {"python": sys.executable, "workspace": str(tmp_path / "workspace")}
    opera.inputs(epochs=3, **given)
    deployed = opera.deploy("--workers", "2", timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert outputs["best"]["best"] in ("short", "long")
    assert outputs["accuracy"] > 0.5
    if updates:
        assert assert_updates(opera, {"epochs": 2, **given}, "long_seconds")["best"]["best"] in ("short", "long")
    undeployed = opera.run("undeploy", "--workers", "2")
    assert undeployed.code == 0, undeployed.text
    assert folders(tmp_path / "workspace") == []


@pytest.mark.parametrize("updates", [False, pytest.param(True, marks=pytest.mark.long)])
def test_mpi_over_two_nodes(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, updates: bool) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "mpi-slurm.yaml")
    given = {"mpi_type": "pmi2", **connection(real_slurm)}
    with nothing_left(real_slurm.home / ".modak"):
        opera.inputs(steps=1000000, **given)
        deployed = opera.deploy()
        assert deployed.code == 0, deployed.text
        outputs = opera.outputs()
        assert (outputs["state"], outputs["metrics"]["ranks"]) == ("completed", 4)
        assert outputs["metrics"]["error"] < 1e-9
        log = (Path(outputs["results_path"]) / "output.log").read_text()
        assert sorted(line.split(" on ")[0] for line in log.splitlines() if line.startswith("rank ")) == [
            f"rank {rank} of 4" for rank in range(4)
        ]
        nodes = real_slurm.ssh(f"scontrol show job {outputs['job_id']}")
        assert "NumNodes=2" in nodes
        if updates:
            assert assert_updates(opera, {"steps": 2000000, **given}, "job_id")["metrics"]["ranks"] == 4
        assert opera.run("undeploy").code == 0
