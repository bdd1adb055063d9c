"""Spot instances on AWS's API as moto has it: the provider takes them back, and the job runs again on another one."""

import json
import re
import time
from typing import Any

import pytest
import yaml

from cloud import Cloud, Controller, describe, document


@pytest.fixture
def spot(cloud: Cloud, controller: Controller) -> dict[str, Any]:
    """The probe's document for spot instances alone, of a job that takes long on its first instance."""
    described = document(controller.folder, spot={"only": True, "restarts": 1}, instance_types=["m7i.large"])
    described["target"]["workspace"] = str(cloud.folder / "work" / "modak")
    mark = controller.folder / "begun"
    described["application"]["arguments"] = [
        "-c",
        f'echo begun >>{mark}; [ "$(wc -l <{mark})" -gt $0 ] || sleep 300; echo ran >>out.txt',
        "1",
    ]
    controller.write(described)
    return described


def wait_for_runs(controller: Controller, runs: int) -> None:
    end = time.monotonic() + 120
    mark = controller.folder / "begun"
    while not mark.exists() or len(mark.read_text().splitlines()) < runs:
        assert time.monotonic() < end, "the job has not begun"
        time.sleep(0.2)


def played(controller: Controller, cloud: Cloud, interruptions: int) -> tuple[int, str]:
    """Deploy, and take the instance back that many times; return the exit code and the output."""
    with (controller.folder / "output").open("w") as output:
        running = controller.started("deploy", output, "-e", "application_spot_outage=3")
        for number in range(interruptions):
            wait_for_runs(controller, number + 1)
            cloud.take_back(cloud.live()[0])
        running.wait(300)
    return running.returncode, (controller.folder / "output").read_text()


def test_a_job_whose_instance_is_taken_back_runs_on_another_one(
    cloud: Cloud, controller: Controller, spot: dict[str, Any]
) -> None:
    code, output = played(controller, cloud, 1)
    assert code == 0, output
    assert (len(cloud.launched), len(cloud.live())) == (2, 1)
    assert (controller.folder / "results" / "probe" / "out.txt").read_text() == "ran\n"
    plan = json.loads((controller.folder / "results" / "probe" / "plan.json").read_text())
    assert plan["instance"]["chosen"]["interruptible"] is True
    assert re.findall(r"<instanceLifecycle>(\w+)<", describe("DescribeInstances", **{"InstanceId.1": cloud.live()[0]}))
    again = controller.run("deploy")
    assert (again.returncode, len(cloud.launched)) == (0, 2), again.stdout
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert (cloud.live(), cloud.groups(), cloud.templates()) == ([], [], []), gone.stdout


def test_a_job_that_fails_after_an_interruption_is_not_run_again(
    cloud: Cloud, controller: Controller, spot: dict[str, Any]
) -> None:
    """The instance that was taken back is still listed when the next one is released."""
    spot["target"]["cloud"] |= {"after_failure": "release", "spot": {"only": True, "restarts": 5}}
    spot["application"]["arguments"][1] += "; exit 3"
    (controller.folder / "deploy.yml").write_text(yaml.safe_dump(spot))
    code, output = played(controller, cloud, 1)
    assert code != 0
    assert "its instance was released" in " ".join(output.split()), output
    assert (len(cloud.launched), cloud.live(), cloud.groups(), cloud.templates()) == (2, [], [], [])
    assert len((controller.folder / "begun").read_text().splitlines()) == 2


def test_no_more_restarts_than_the_document_permits(cloud: Cloud, controller: Controller, spot: dict[str, Any]) -> None:
    spot["application"]["arguments"][-1] = "9"
    (controller.folder / "deploy.yml").write_text(yaml.safe_dump(spot))
    code, output = played(controller, cloud, 2)
    assert code != 0
    assert "the provider has taken the spot instance back, and the 1 restarts" in " ".join(output.split()), output
    assert (len(cloud.launched), cloud.live()) == (2, [])
    assert controller.run("undeploy").returncode == 0
    assert (cloud.groups(), cloud.templates()) == ([], [])


def test_on_demand_where_a_spot_instance_costs_as_much(
    cloud: Cloud, controller: Controller, spot: dict[str, Any]
) -> None:
    """Without a spot price in the catalogue that on demand counts, which a spot instance does not exceed."""
    spot["target"]["cloud"]["spot"] = {"only": False}
    spot["application"]["arguments"][-1] = "0"
    (controller.folder / "deploy.yml").write_text(yaml.safe_dump(spot))
    assert controller.run("deploy").returncode == 0
    assert cloud.templates() == []
    plan = json.loads((controller.folder / "results" / "probe" / "plan.json").read_text())
    assert [kind["interruptible"] for kind in (plan["instance"]["chosen"], *plan["instance"]["candidates"])] == [
        False,
        True,
    ]
    assert controller.run("undeploy").returncode == 0
