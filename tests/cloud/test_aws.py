"""deploy and undeploy on AWS's API as moto has it, by the real collection amazon.aws, with a real sshd as instance."""

import json
import re
import shutil
import time

import pytest
import yaml

from cloud import Cloud, Controller, describe


def recap(output: str, host: str) -> dict[str, int]:
    line = next(line for line in output.splitlines() if line.startswith(f"{host} "))
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def test_a_deployment_from_nothing_to_nothing(cloud: Cloud, controller: Controller) -> None:
    checked = controller.run("deploy", "--check")
    assert checked.returncode == 0, checked.stdout
    assert "would create instance modak-probe: m7i.large in us-east-1, 0.1008 USD an hour" in checked.stdout
    assert "would create security group modak-" in checked.stdout
    assert (cloud.launched, cloud.groups()) == ([], [])

    first = controller.run("deploy")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "secret-of-the-test" not in first.stdout + first.stderr
    assert "PRIVATE KEY" not in first.stdout + first.stderr
    assert len(cloud.live()) == 1
    assert (controller.folder / "results" / "probe" / "out.txt").read_text() == "ran\n"

    instance = describe("DescribeInstances")
    assert "<httpTokens>required</httpTokens>" in instance
    assert "<value>modak-probe</value>" in instance
    group = describe("DescribeSecurityGroups", **{"Filter.1.Name": "group-name", "Filter.1.Value.1": cloud.groups()[0]})
    opened = re.findall(r"<ipPermissions>(.*?)</ipPermissions>", group, re.DOTALL)
    assert re.findall(r"<cidrIp>([0-9./]+)</cidrIp>", "".join(opened)) == ["192.0.2.0/24"], group

    second = controller.run("deploy")
    assert second.returncode == 0, second.stdout
    assert all(recap(second.stdout, host)["changed"] == 0 for host in ("localhost", cloud.groups()[0])), second.stdout
    assert len(cloud.launched) == 1
    assert (controller.folder / "results" / "probe" / "out.txt").read_text() == "ran\n"

    listed = controller.run("undeploy", "--check")
    assert f"would delete {cloud.launched[0]}" in listed.stdout
    assert len(cloud.live()) == 1
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert (cloud.live(), cloud.groups()) == ([], [])
    again = controller.run("undeploy")
    assert again.returncode == 0, again.stdout
    assert recap(again.stdout, "localhost")["changed"] == 0


def test_with_lost_local_state_it_is_found_by_its_tag(cloud: Cloud, controller: Controller) -> None:
    assert controller.run("deploy", "-e", "wait=false").returncode == 0
    shutil.rmtree(controller.folder / "state")
    shutil.rmtree(controller.folder / "results")
    again = controller.run("deploy")
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(cloud.launched) == 1
    shutil.rmtree(controller.folder / "state")
    shutil.rmtree(controller.folder / "results")
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert (cloud.live(), cloud.groups()) == ([], [])


@pytest.mark.parametrize("code", ["VcpuLimitExceeded", "InsufficientInstanceCapacity"])
def test_the_next_type_is_taken_where_there_is_no_capacity(cloud: Cloud, controller: Controller, code: str) -> None:
    """amazon.aws 10.1 repeats such a call for minutes (module_utils/ec2.py, EC2_INSTANCE_CATCH_EXTRA_CODES)."""
    cloud.no_capacity["m7i.large"] = code
    first = controller.run("deploy")
    assert first.returncode == 0, first.stdout + first.stderr
    assert code in first.stdout
    plan = json.loads((controller.folder / "results" / "probe" / "plan.json").read_text())
    assert plan["instance"]["chosen"]["name"] == "c7i.xlarge"
    assert any(code in rejected["reason"] for rejected in plan["rejected"])
    cloud.no_capacity.clear()
    second = controller.run("deploy")
    assert second.returncode == 0, second.stdout
    assert len(cloud.launched) == 1
    assert controller.run("undeploy").returncode == 0
    assert (cloud.live(), cloud.groups()) == ([], [])


def test_the_next_zone_is_taken_where_there_is_no_capacity(cloud: Cloud, controller: Controller) -> None:
    document = yaml.safe_load((controller.folder / "deploy.yml").read_text())
    document["target"]["cloud"]["zones"] = ["us-east-1b", "us-east-1c"]
    controller.write(document)
    cloud.no_capacity["us-east-1b"] = "VcpuLimitExceeded"
    deployed = controller.run("deploy")
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    assert "m7i.large in us-east-1b: " in deployed.stdout
    assert re.findall(r"<availabilityZone>([^<]+)<", describe("DescribeInstances"))[-1] == "us-east-1c"
    plan = json.loads((controller.folder / "results" / "probe" / "plan.json").read_text())
    assert plan["instance"]["chosen"]["name"] == "m7i.large"
    assert controller.run("undeploy").returncode == 0
    assert (cloud.live(), cloud.groups()) == ([], [])


def test_no_type_has_capacity(cloud: Cloud, controller: Controller) -> None:
    cloud.no_capacity |= dict.fromkeys(("m7i.large", "c7i.xlarge"), "VcpuLimitExceeded")
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "no instance type" in failed.stdout
    assert cloud.launched == []
    assert cloud.live() == []
    assert controller.run("undeploy").returncode == 0
    assert cloud.groups() == []


@pytest.mark.parametrize("how", ["refused", "lost"])
def test_every_call_fails_once(cloud: Cloud, controller: Controller, how: str) -> None:
    """Each call of a deployment fails in turn; then it is made again, or undeployed at once, in turn.

    An answer is lost after the call was done, which differs from a refusal for the calls alone that change something.
    """
    assert controller.run("deploy").returncode == 0
    calls = [call.action for call in cloud.calls]
    assert controller.run("undeploy").returncode == 0
    for number, action in enumerate(calls):
        if how == "lost" and action.startswith(("Describe", "Get")):
            continue
        began = time.monotonic()
        cloud.calls.clear()
        cloud.launched.clear()
        cloud.fail = (number, how)
        failed = controller.run("deploy")
        assert cloud.calls[number].done == how, (number, action)
        cloud.fail = None
        if number % 2 == 0:
            again = controller.run("deploy")
            assert again.returncode == 0, (number, action, again.stdout)
            assert len(cloud.live()) == 1, (number, action)
        assert len(cloud.launched) <= 1, (number, action)
        gone = controller.run("undeploy")
        assert gone.returncode == 0, (number, action, gone.stdout)
        assert (cloud.live(), cloud.groups()) == ([], []), (number, action)
        print(f"{number} {action}: rc {failed.returncode}, then well, {time.monotonic() - began:.0f} s", flush=True)
