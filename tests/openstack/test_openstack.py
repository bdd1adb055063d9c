"""deploy and undeploy on a real OpenStack with a fake hypervisor, and a real sshd as server."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from stackcloud import CACHE, Controller, Project

LEVELS = int(os.environ.get("MODAK_OPENSTACK_ROUNDS", "6"))
"""Moments at which the controller is killed."""


def recap(output: str, host: str) -> dict[str, int]:
    line = next(line for line in output.splitlines() if line.startswith(f"{host} "))
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def test_a_deployment_from_nothing_to_nothing(project: Project, controller: Controller) -> None:
    checked = controller.run("deploy", "--check")
    assert checked.returncode == 0, checked.stdout
    assert re.search(r"would create instance modak-[0-9a-f]{16}: m1\.small in RegionOne, 0 EUR an hour", checked.stdout)
    assert "would create security group modak-" in checked.stdout
    assert project.launched == []
    assert project.is_empty()

    first = controller.run("deploy")
    assert first.returncode == 0, first.stdout + first.stderr
    secret = (project.rig / "os" / "secret").read_text().strip()
    assert secret not in first.stdout + first.stderr
    assert "PRIVATE KEY" not in first.stdout + first.stderr
    assert (controller.folder / "results" / "probe" / "out.txt").read_text() == "ran\n"
    kept = [
        path for path in controller.folder.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")
    ]
    assert kept == []

    listed = project.listed()
    (server,), (group,) = listed["servers"], listed["groups"]
    identity = group["name"]
    assert re.fullmatch("modak-[0-9a-f]{16}", identity)
    assert (server["name"], server["flavor"], server["status"]) == (identity, "m1.small", "ACTIVE")
    assert server["metadata"]["modak:deployment"] == identity
    assert group["description"].startswith(f"modak:deployment={identity} ")
    opened = [rule for rule in group["rules"] if rule["direction"] == "ingress"]
    assert [(r["protocol"], r["port_range_min"], r["port_range_max"], r["remote_ip_prefix"]) for r in opened] == [
        ("tcp", 22, 22, "192.0.2.0/24")
    ]

    second = controller.run("deploy")
    assert second.returncode == 0, second.stdout
    assert all(recap(second.stdout, host)["changed"] == 0 for host in ("localhost", identity)), second.stdout
    assert len(project.launched) == 1

    asked = controller.run("undeploy", "--check")
    assert f"would delete {server['id']}" in asked.stdout
    assert project.listed() == listed
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert project.is_empty(), project.listed()
    again = controller.run("undeploy")
    assert again.returncode == 0, again.stdout
    assert recap(again.stdout, "localhost")["changed"] == 0


def test_with_lost_local_state_it_is_found_by_its_metadata(project: Project, controller: Controller) -> None:
    assert controller.run("deploy", "-e", "wait=false").returncode == 0
    shutil.rmtree(controller.folder / "state")
    shutil.rmtree(controller.folder / "results")
    again = controller.run("deploy")
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(project.launched) == 1
    shutil.rmtree(controller.folder / "state")
    shutil.rmtree(controller.folder / "results")
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert project.is_empty(), project.listed()


@pytest.mark.parametrize(
    ("flavor", "words"),
    [
        ("m1.vast", "Quota exceeded"),
        ("m1.nowhere", "its status is ERROR"),
        ("m1.absent", "No Flavor found"),
    ],
)
def test_the_next_flavor_is_taken(project: Project, controller: Controller, flavor: str, words: str) -> None:
    """A quota of 20 cores, no host with 900 GB, and a flavor of the catalogue that this cloud does not have."""
    controller.describe(project, instance_types=[flavor, "m1.large"])
    first = controller.run("deploy")
    assert first.returncode == 0, first.stdout + first.stderr
    assert words in first.stdout
    plan = json.loads((controller.folder / "results" / "probe" / "plan.json").read_text())
    assert plan["instance"]["chosen"]["name"] == "m1.large"
    assert any(words in rejected["reason"] for rejected in plan["rejected"])
    assert [(s["flavor"], s["status"]) for s in project.listed()["servers"]] == [("m1.large", "ACTIVE")]
    second = controller.run("deploy")
    assert second.returncode == 0, second.stdout
    assert recap(second.stdout, "localhost")["changed"] == 0
    assert controller.run("undeploy").returncode == 0
    assert project.is_empty(), project.listed()


def test_no_flavor_can_be_had(project: Project, controller: Controller) -> None:
    controller.describe(project, instance_types=["m1.nowhere"])
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "no instance type" in failed.stdout
    assert controller.run("undeploy").returncode == 0
    assert project.is_empty(), project.listed()


def test_a_server_whose_floating_ip_never_comes_up_leaves_nothing(project: Project, controller: Controller) -> None:
    """No L3 agent runs in the rig, so that no floating IP gets ACTIVE; openstacksdk deletes it after the time limit."""
    controller.describe(project, address="public")
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "floating IP" in failed.stdout
    assert controller.run("undeploy").returncode == 0
    assert project.is_empty(), project.listed()


def test_a_cloud_without_floating_ips_is_said_and_no_server_made_for_ever(
    project: Project, controller: Controller
) -> None:
    """openstacksdk creates the server and no floating IP, and calls that a success."""
    clouds = yaml.safe_load((project.rig / "clouds.yaml").read_text())
    clouds["clouds"]["lab"]["floating_ip_source"] = "none"
    (controller.folder / "clouds.yaml").write_text(yaml.safe_dump(clouds))
    controller.describe(project, address="public")
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "without a floating IP" in failed.stdout
    assert len(project.launched) == 1
    assert controller.run("undeploy").returncode == 0
    assert project.is_empty(), project.listed()


def test_a_server_that_was_renamed_is_found_and_deleted(project: Project, controller: Controller) -> None:
    assert controller.run("deploy").returncode == 0
    rename = (
        "import openstack; compute = openstack.connect(cloud='inside').compute; "
        "compute.update_server(next(compute.servers()), name='box')"
    )
    environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(project.rig / "clouds.yaml")}
    subprocess.run([str(CACHE / "venv" / "bin" / "python"), "-c", rename], env=environment, check=True)
    again = controller.run("deploy")
    assert again.returncode == 0, again.stdout
    assert len(project.launched) == 1
    assert [server["name"] for server in project.listed()["servers"]] == ["box"]
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert project.is_empty(), project.listed()


def test_the_missing_python_package_is_reported_with_its_command(project: Project, controller: Controller) -> None:
    (controller.folder / "hosts").write_text(
        "localhost ansible_connection=local ansible_python_interpreter=/usr/bin/python3\n"
    )
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "pip install 'openstacksdk<4.8'" in failed.stdout
    assert project.is_empty()


@pytest.mark.parametrize("how", ["refused", "lost"])
def test_every_call_fails_once(project: Project, controller: Controller, how: str) -> None:
    """The first call of each kind fails; then the deployment is made again, or undeployed at once, in turn.

    An answer is lost after the call was done, which differs from a refusal for the calls alone that change something.
    """
    assert controller.run("deploy").returncode == 0
    kinds = list(dict.fromkeys(call.kind for call in project.calls))
    assert controller.run("undeploy").returncode == 0
    for number, kind in enumerate(kinds):
        if how == "lost" and " GET " in kind:
            continue
        began = time.monotonic()
        project.calls.clear()
        project.launched.clear()
        shutil.rmtree(controller.folder / "results", ignore_errors=True)
        project.fail = (kind, how)
        failed = controller.run("deploy")
        assert any(call.done == how for call in project.calls), (kind, project.calls)
        if number % 2 == 0:
            again = controller.run("deploy")
            assert again.returncode == 0, (kind, again.stdout)
            assert len(project.listed()["servers"]) == 1, kind
        gone = controller.run("undeploy")
        assert gone.returncode == 0, (kind, gone.stdout)
        assert project.is_empty(), (kind, project.listed())
        print(f"{number} {kind} {how}: rc {failed.returncode}, then well, {time.monotonic() - began:.0f} s", flush=True)


def test_a_controller_killed_at_any_moment_leaves_no_orphan(project: Project, controller: Controller) -> None:
    began = time.monotonic()
    assert controller.run("deploy").returncode == 0
    longest = time.monotonic() - began
    assert controller.run("undeploy").returncode == 0
    for number in range(LEVELS):
        project.launched.clear()
        shutil.rmtree(controller.folder / "results", ignore_errors=True)
        moment = longest * (number + 1) / (LEVELS + 1)
        process = controller.started("deploy")
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(2)  # a call that is on its way still changes the project
        if number % 2 == 0:
            shutil.rmtree(controller.folder / "state", ignore_errors=True)
        else:
            again = controller.run("deploy")
            assert again.returncode == 0, (moment, again.stdout)
            assert len(project.listed()["servers"]) == 1, moment
        assert len(project.launched) <= 1, moment
        gone = controller.run("undeploy")
        assert gone.returncode == 0, (moment, gone.stdout)
        assert project.is_empty(), (moment, project.listed())
        print(f"killed after {moment:.1f} s of {longest:.1f} s: well", flush=True)
