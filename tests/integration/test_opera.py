"""xOpera on the blueprints: deploy, outputs, undeploy, resume, update; on this machine and on a real Slurm over ssh."""

import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import rig
from modak.blueprint.package import write_csar
from modak.discovery import parse_probe, probe_script
from modak.performance.records import read_records
from modak.performance.store import Store
from modak.transport.local import LocalTransport
from orchestrator import BLUEPRINTS, Orchestrator, connection
from rig import Rig

OUTPUTS = {
    "job_id", "state", "runtime", "image", "interpreter", "chosen",
    "predicted_seconds", "measured_seconds", "accuracy", "results_path",
}  # fmt: skip


@pytest.fixture
def name() -> str:
    """A name that no run before had."""
    return f"tiny-{secrets.token_hex(4)}"


@pytest.fixture
def here(tmp_path: Path, environment: dict[str, str], name: str) -> Orchestrator:
    """The tiny application on this machine."""
    opera = Orchestrator.on_tiny(tmp_path, environment, "Machine")
    opera.inputs(name=name, workspace=str(tmp_path / "workspace"))
    return opera


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, name: str) -> Orchestrator:
    """The tiny application on the real Slurm, over ssh."""
    opera = Orchestrator.on_tiny(tmp_path, environment, "SlurmCluster")
    opera.inputs(name=name, **connection(real_slurm))
    return opera


def assert_refused(ended: Any, *words: str) -> None:
    """Check that a deployment failed and told why; xOpera's own traceback comes with every failure of an operation."""
    assert ended.code != 0, ended.text
    reason = next((line for line in ended.text.splitlines() if '"error"' in line), "")
    assert all(word in reason for word in words), ended.text


def folders(workspace: Path) -> list[Path]:
    return sorted((workspace / "runs").glob("*")) if workspace.exists() else []


def states(rig: Rig, name: str) -> list[str]:
    return [state for its_name, state in rig.jobs().values() if its_name == name]


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
    assert assert_updates(opera, {"epochs": 1, **given}, "job_id")["state"] == "completed"
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert folders(tmp_path / "workspace") == []
    assert (Path(outputs["results_path"]) / "metrics.json").exists(), "results on the controller stay"


def test_digits_on_slurm(tmp_path: Path, environment: dict[str, str], real_slurm: Rig, keras_python: str) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-slurm.yaml")
    given = {"python": keras_python, "partition": "cpu", **connection(real_slurm)}
    opera.inputs(epochs=2, **given)
    deployed = opera.deploy(timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert_trained(outputs, opera.results)
    assert outputs["interpreter"] == keras_python
    assert real_slurm.jobs()[outputs["job_id"]] == ("digits", "COMPLETED")
    assert assert_updates(opera, {"epochs": 1, **given}, "job_id")["state"] == "completed"
    assert opera.run("undeploy").code == 0
    assert not list((real_slurm.home / ".modak" / "runs").glob("digits-*"))


@pytest.fixture
def torque(real_slurm: Rig) -> Iterator[Rig]:
    """The real Slurm, whose user finds its wrappers for Torque's commands on the path."""
    folder = rig.ask("torque").splitlines()[-1]
    perl = real_slurm.ssh(f"cd {folder} && find . -name Slurm.pm").strip().removeprefix("./").removesuffix("/Slurm.pm")
    real_slurm.ssh(f"echo 'export PATH={folder}/usr/bin:$PATH PERL5LIB={folder}/{perl}' >.bashrc")
    yield real_slurm
    real_slurm.ssh("rm .bashrc")


def test_digits_on_torque(tmp_path: Path, environment: dict[str, str], torque: Rig, keras_python: str) -> None:
    assert "Unknown option: version" in torque.ssh("qsub --version 2>&1 || true")
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-torque.yaml")
    given = {"python": keras_python, "queue": "cpu", **connection(torque)}
    opera.inputs(epochs=1, **given)
    deployed = opera.deploy(timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert_trained(outputs, opera.results, 0.3)
    plan = json.loads((Path(outputs["results_path"]) / "plan.json").read_text())
    assert (plan["target"]["type"], plan["facts"]["wrapped"], plan["scheduler"]) == ("torque", True, "slurm")
    assert torque.jobs()[outputs["job_id"]] == ("digits", "COMPLETED")
    assert assert_updates(opera, {"epochs": 2, **given}, "job_id")["state"] == "completed"
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not list((torque.home / ".modak" / "runs").glob("digits-*"))


def measured_on_slurm(folder: Path, seconds: float) -> str:
    """Return the address of a store in which digits took so long on a node of the rig, which is this machine."""
    here = parse_probe(LocalTransport().run(probe_script(None)).stdout, None).node
    record = {
        "schema": "modak.measurement/1",
        "type": "ai_training",
        "framework": "keras",
        "workload": {"model": "mnist-cnn", "unit": "epoch", "units": 1},
        "configuration": {"levers": ["keras-tensorflow"]},
        "hardware": {"microarchitecture": here.microarchitecture, "cpu_model": here.cpu_model, "cores": 8},
        "provenance": {"source": "test_opera.py", "date": "2026-01-01", "method": "invented"},
        "runs": [{"total": seconds + n / 1000} for n in range(5)],
    }
    (folder / "records.jsonl").write_text(json.dumps(record) + "\n")
    store = Store(f"sqlite:///{folder}/store.sqlite")
    assert store.add(read_records(folder / "records.jsonl")) == (1, 0)
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
    opera.environment["MODAK_MEASUREMENTS"] = f"sqlite:///{tmp_path}/none.sqlite"
    opera.inputs(epochs=2, **given)
    deployed = opera.deploy(timeout=300)
    assert deployed.code == 0, deployed.text
    assert (opera.outputs()["target"], opera.outputs()["state"]) == ("machine", "completed")
    opera.environment["MODAK_MEASUREMENTS"] = measured_on_slurm(tmp_path, 0.5)
    outputs = assert_updates(opera, {"epochs": 1, **given}, "job_id")
    assert (outputs["target"], outputs["state"], outputs["interpreter"]) == ("cluster", "completed", keras_python)
    assert real_slurm.jobs()[outputs["job_id"]] == ("digits", "COMPLETED")
    (other,) = json.loads((Path(outputs["results_path"]) / "plan.json").read_text())["other_targets"]
    assert other["target"]["name"] == "machine"
    assert folders(workspace) == [], "the job of before is gone"
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not list((real_slurm.home / ".modak" / "runs").glob("digits-*"))


def test_a_target_that_cannot_do_it_is_left_for_one_that_can(here: Orchestrator) -> None:
    blueprint = yaml.safe_load(here.blueprint.read_text())
    templates = blueprint["topology_template"]["node_templates"]
    host, tiny = templates["target"], templates["tiny"]
    host["properties"]["node"] = {"cores": 1}
    templates["big"] = {**host, "properties": {**host["properties"], "node": {"cores": 4}}}
    tiny["requirements"].append({"other_target": "big"})
    tiny["properties"]["job"] = {"wall_time": "5 m", "cores_per_rank": 4}
    here.blueprint.write_text(yaml.safe_dump(blueprint))
    deployed = here.deploy()
    assert deployed.code == 0, deployed.text
    plan = here.outputs()["plan"]
    (other,) = plan["other_targets"]
    assert (plan["target"]["name"], other["candidate"]) == ("big", None)
    assert other["reason"].endswith("need 4 cores, and a node of the target machine has 1")
    assert here.run("undeploy").code == 0
    assert folders(here.folder / "workspace") == []
    tiny["properties"]["job"]["cores_per_rank"] = 5
    here.blueprint.write_text(yaml.safe_dump(blueprint))
    assert_refused(here.deploy("--clean-state", "--force"), "on machine: ", "on big: ", "has 4")


def test_node_types_of_sodalite(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    """A ready script with what only a template language would take for its own, and a job after its end."""
    shutil.copytree(BLUEPRINTS / "modak", tmp_path / "b" / "modak")
    text = (BLUEPRINTS / "sodalite-slurm.yaml").read_text()
    assert "echo 42 >" in text
    (tmp_path / "b" / "s.yaml").write_text(text.replace("echo 42 >", "A=(1 2); echo '{{ 6 * 7 }}' ${#A[@]} >"))
    opera = Orchestrator(tmp_path, environment, tmp_path / "b" / "s.yaml")
    way = connection(real_slurm)
    given = {"frontend-address": way["host"], "frontend-key": way["private_key"]}
    given |= {name: way[name] for name in ("user", "port", "known_hosts")}
    opera.inputs(**given)
    deployed = opera.deploy()
    assert deployed.code == 0, deployed.text
    outputs = assert_updates(opera, {"wall_time": "00:05:00", **given}, "job_id")
    assert outputs["state"] == "completed"
    assert (Path(outputs["results_path"]) / "answer.txt").read_text() == "{{ 6 * 7 }} 2\n"
    assert real_slurm.jobs()[outputs["job_id"]] == ("solve", "COMPLETED")
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    left = [path.name for path in folders(real_slurm.home / ".modak")]
    assert not [name for name in left if name.startswith(("prepare-", "solve-"))]


def test_a_workflow_passes_results_on(tmp_path: Path, environment: dict[str, str]) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "workflow-machine.yaml")
    given = {"python": sys.executable, "workspace": str(tmp_path / "workspace")}
    opera.inputs(epochs=3, **given)
    deployed = opera.deploy("--workers", "2", timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    assert outputs["best"]["best"] in ("short", "long")
    assert outputs["accuracy"] > 0.5
    assert assert_updates(opera, {"epochs": 2, **given}, "long_seconds")["best"]["best"] in ("short", "long")
    undeployed = opera.run("undeploy", "--workers", "2")
    assert undeployed.code == 0, undeployed.text
    assert folders(tmp_path / "workspace") == []


def test_mpi_over_two_nodes(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "mpi-slurm.yaml")
    given = {"mpi_type": "pmi2", **connection(real_slurm)}
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
    assert assert_updates(opera, {"steps": 2000000, **given}, "job_id")["metrics"]["ranks"] == 4
    assert opera.run("undeploy").code == 0


def test_a_package_deploys(here: Orchestrator) -> None:
    package = here.folder / "tiny.csar"
    write_csar(here.blueprint, package)
    here.blueprint = package
    deployed = here.deploy()
    assert deployed.code == 0, deployed.text
    assert here.outputs()["state"] == "completed"
    assert here.run("undeploy").code == 0


def test_undeploy_cancels_a_running_job(here: Orchestrator, name: str) -> None:
    workspace = here.folder / "workspace"
    here.inputs(name=name, workspace=str(workspace), arguments=["--seconds", "300"], wait=False)
    deployed = here.deploy()
    assert deployed.code == 0, deployed.text
    outputs = here.outputs()
    assert outputs["state"] == "running"
    pid = int(outputs["job_id"].split("-")[0])
    assert is_alive(pid)
    undeployed = here.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not is_alive(pid)
    assert folders(workspace) == []


def test_undeploy_cancels_a_running_job_on_slurm(cluster: Orchestrator, real_slurm: Rig, name: str) -> None:
    cluster.inputs(name=name, arguments=["--seconds", "300"], wait=False, **connection(real_slurm))
    deployed = cluster.deploy()
    assert deployed.code == 0, deployed.text
    outputs = cluster.outputs()
    assert outputs["state"] in ("queued", "running")
    undeployed = cluster.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert states(real_slurm, name) == ["CANCELLED"]
    assert not list((real_slurm.home / ".modak" / "runs").glob(f"{name}-*"))


def test_a_job_that_was_only_submitted_is_looked_at_later(here: Orchestrator, name: str) -> None:
    given = {"name": name, "workspace": str(here.folder / "workspace"), "wait": False}
    here.inputs(**given, arguments=["--seconds", "25", "--numbers", "4"])
    deployed = here.deploy()
    assert deployed.code == 0, deployed.text
    seen = []
    while "completed" not in seen:
        notified = here.run("notify", "--trigger", "refresh", "--force")
        assert notified.code == 0, notified.text
        outputs = here.outputs()
        seen.append(outputs["state"])
        if seen[-1] == "running":
            assert (outputs["measured_seconds"], outputs["metrics"]) == (None, {})
            time.sleep(3)
    assert seen[0] == "running"
    assert set(seen) == {"running", "completed"}
    assert outputs["metrics"]["sum"] == 14
    assert (Path(outputs["results_path"]) / "metrics.json").exists()


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_failing_job_fails_the_deployment(where: str, request: pytest.FixtureRequest) -> None:
    opera: Orchestrator = request.getfixturevalue(where)
    given = yaml.safe_load((opera.folder / "inputs.yaml").read_text())
    opera.inputs(**(given | {"arguments": ["--exit", "3"]}))
    assert_refused(opera.deploy(), given["name"], "exit code 3")
    removed = opera.run("undeploy", "--resume", "--force")
    assert removed.code == 0, removed.text


def test_resume_after_an_error_submits_nothing_twice(cluster: Orchestrator, real_slurm: Rig, name: str) -> None:
    """The deployment gives up waiting, the job goes on, and the resumed deployment finds it."""
    job = {"name": name, "arguments": ["--seconds", "6"], **connection(real_slurm)}
    cluster.inputs(timeout=1, **job)
    assert_refused(cluster.deploy(), "running after 1 s of waiting")
    assert states(real_slurm, name) == ["RUNNING"]
    cluster.inputs(timeout=0, **job)
    resumed = cluster.deploy("--resume", "--force")
    assert resumed.code == 0, resumed.text
    assert cluster.outputs()["state"] == "completed"
    assert states(real_slurm, name) == ["COMPLETED"]


def test_a_killed_deployment_is_taken_up_again(cluster: Orchestrator, real_slurm: Rig, name: str) -> None:
    cluster.inputs(name=name, arguments=["--seconds", "6"], **connection(real_slurm))
    with cluster.start("deploy", "-i", "inputs.yaml", str(cluster.blueprint)) as running:
        running.wait_for(lambda: "RUNNING" in states(real_slurm, name))
        os.killpg(running.process.pid, signal.SIGKILL)
        running.process.communicate()
    again = cluster.deploy()
    assert again.code == 0, again.text
    assert cluster.outputs()["state"] == "completed"
    assert states(real_slurm, name) == ["COMPLETED"]


def test_update_replans_what_has_changed(here: Orchestrator, name: str) -> None:
    workspace = here.folder / "workspace"
    deployed = here.deploy()
    assert deployed.code == 0, deployed.text
    before = here.outputs()
    here.inputs(name=name, workspace=str(workspace), arguments=["--numbers", "5"])
    updated = here.run("update", "-i", "inputs.yaml", str(here.blueprint))
    assert updated.code == 0, updated.text
    after = here.outputs()
    assert after["job_id"] != before["job_id"]
    assert after["metrics"]["sum"] == 30
    assert len(folders(workspace)) == 1, "the job of before is gone"


Change = Callable[[Path], None]


def _misspelt(project: Path) -> None:
    blueprint = project / "tiny.yaml"
    blueprint.write_text(blueprint.read_text().replace("wall_time: 5 m", "wal_time: 5 m"))


def _both(project: Path) -> None:
    blueprint = project / "tiny.yaml"
    blueprint.write_text(blueprint.read_text().replace("metrics: metrics.json", "executable: /bin/true"))


@pytest.mark.parametrize(
    ("inputs", "change", "words"),
    [
        ({"host": "127.0.0.1", "port": 1}, None, ["127.0.0.1", "refused"]),
        ({"arguments": ["a\0b"]}, None, ["application.arguments[0]", "NUL"]),
        ({"results": "relative"}, None, ["results 'relative'", "write an absolute one"]),
        ({}, _misspelt, ["job", "wal_time", "did you mean 'wall_time'"]),
        ({}, _both, ["exactly one of 'script' and 'executable'"]),
    ],
    ids=["unreachable", "bad-argument", "relative-results", "misspelt-key", "two-programs"],
)
def test_what_cannot_be_is_told_and_nothing_is_submitted(
    here: Orchestrator, name: str, inputs: dict[str, Any], change: Change | None, words: list[str]
) -> None:
    workspace = here.folder / "workspace"
    here.inputs(**{"name": name, "workspace": str(workspace), **inputs})
    if change:
        change(here.blueprint.parent)
    assert_refused(here.deploy(), *words)
    assert folders(workspace) == []
