"""xOpera on the tiny application: packages, failures, resume, update, undeploy; on this machine and on a real Slurm."""

import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.tosca.package import write_csar
from orchestrator import Orchestrator, connection, folders
from rig import Rig


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


def states(rig: Rig, name: str) -> list[str]:
    return [state for its_name, state in rig.all_jobs().values() if its_name == name]


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_instance_that_cannot_be_created_is_told_before_anything_is_planned(
    here: Orchestrator, name: str, tmp_path: Path
) -> None:
    """The reason names what is missing; nobody was contacted, and nothing was created."""
    blueprint = yaml.safe_load(here.blueprint.read_text())
    blueprint["topology_template"]["node_templates"]["target"] = {
        "type": "modak.nodes.target.CloudInstance",
        "properties": {
            "private_key": str(tmp_path / "id"),
            "cloud": {"provider": "aws", "region": "us-east-1", "machine_image": "ami-1", "access": ["192.0.2.0/24"]},
        },
    }
    here.blueprint.write_text(yaml.safe_dump(blueprint))
    refused = here.deploy()
    assert refused.code != 0
    text = " ".join(refused.text.split())
    assert f"{tmp_path}/id.pub: the public SSH key cannot be read" in text, refused.text
    assert "Executing create on tiny" not in text
    assert folders(tmp_path / "workspace") == []


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


def assert_fails(opera: Orchestrator) -> dict[str, Any]:
    """Check that a failing job fails the deployment, and return the inputs with which it does not."""
    given: dict[str, Any] = yaml.safe_load((opera.folder / "inputs.yaml").read_text())
    opera.inputs(**(given | {"arguments": ["--exit", "3"]}))
    assert_refused(opera.deploy(), given["name"], "exit code 3")
    return given


def test_a_failing_job_is_undeployed(cluster: Orchestrator, real_slurm: Rig, name: str) -> None:
    assert_fails(cluster)
    removed = cluster.run("undeploy", "--resume", "--force")
    assert removed.code == 0, removed.text
    assert not list((real_slurm.home / ".modak" / "runs").glob(f"{name}-*"))


def test_a_deployment_with_a_failing_job_is_resumed_with_other_inputs(here: Orchestrator) -> None:
    here.inputs(**assert_fails(here))
    resumed = here.deploy("--resume", "--force")
    assert resumed.code == 0, resumed.text
    assert here.outputs()["state"] == "completed"
    assert len(folders(here.folder / "workspace")) == 1, "the failed job is gone"


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_failed_job_is_run_again_when_the_deployment_is_resumed(where: str, request: pytest.FixtureRequest) -> None:
    opera: Orchestrator = request.getfixturevalue(where)
    folder = request.getfixturevalue("real_slurm").home if where == "cluster" else opera.folder
    cause = folder / f"cause-{secrets.token_hex(4)}"
    blueprint = yaml.safe_load(opera.blueprint.read_text())
    template = blueprint["topology_template"]
    template["node_templates"]["tiny"]["properties"]["job"] = {"wall_time": "5 m", "pre_execution": f"ls {cause}"}
    template["outputs"]["attempt"] = {"value": {"get_attribute": ["tiny", "job_attempt"]}}
    opera.blueprint.write_text(yaml.safe_dump(blueprint))
    assert_refused(opera.deploy(), "pre_execution ended with exit code", "The last lines of output.log", str(cause))
    cause.touch()
    resumed = opera.deploy("--resume", "--force")
    assert resumed.code == 0, resumed.text
    outputs = opera.outputs()
    assert (outputs["state"], outputs["attempt"]) == ("completed", 2)
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    cause.unlink()


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
