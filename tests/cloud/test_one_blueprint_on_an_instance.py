"""The document and the blueprint of tests/integration/test_one_blueprint.py on an instance that is created."""

import shutil
from pathlib import Path

import pytest
import yaml

from anywhere import SUM, Anywhere, workstation
from cloud import VENV, Cloud, Controller, describe, document

PLACES = ("workstation", "instance")
NEEDED = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")
"""What amazon.aws needs of the Python that runs xOpera, and this one may lack."""


@pytest.fixture
def anywhere(controller: Controller, cloud: Cloud, tmp_path: Path, environment: dict[str, str]) -> Anywhere:
    """A user whose Python has modak and boto3."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (there,) = (VENV / "lib").glob("python3*/site-packages")
    for name in NEEDED:
        (packages / name).symlink_to(there / name)
    own = controller.environment()
    provider = {name: own[name] for name in own if name.startswith("AWS_")} | {"HOME": own["HOME"]}
    collections = f"{environment['ANSIBLE_COLLECTIONS_PATH']}:{VENV / 'collections'}"
    path = f"{environment['PYTHONPATH']}:{packages}"
    described = document(tmp_path)["target"] | {"workspace": str(cloud.folder / "work" / "modak")}
    described["cloud"] |= {"software": {"python": "/usr/bin/python3"}, "after_failure": "release"}
    del described["name"]
    return Anywhere(
        tmp_path,
        {**environment, **provider, "ANSIBLE_COLLECTIONS_PATH": collections, "PYTHONPATH": path},
        {"workstation": workstation(tmp_path), "instance": described},
    )


def test_one_document_by_the_playbooks(anywhere: Anywhere, cloud: Cloud) -> None:
    for place in PLACES:
        done = anywhere.play("deploy", place)
        assert done.code == 0, done.text
        again = anywhere.play("deploy", place)
        assert (again.code, "changed=0" in again.text) == (0, True), again.text
    (created, computed), (_, here) = anywhere.played("instance"), anywhere.played("workstation")
    assert (created["instance"]["chosen"]["name"], computed["sum"], here["sum"]) == ("m7i.large", SUM, SUM)
    assert (len(cloud.launched), len(cloud.live())) == (1, 1)
    for place in PLACES:
        gone = anywhere.play("undeploy", place)
        assert gone.code == 0, gone.text
    assert (cloud.live(), cloud.groups()) == ([], [])


def test_one_blueprint_by_xopera(anywhere: Anywhere, cloud: Cloud) -> None:
    opera = anywhere.opera()
    _, here = anywhere.orchestrated(opera, "workstation")
    anywhere.undeploy(opera)
    assert cloud.launched == []
    outputs, computed = anywhere.orchestrated(opera, "instance")
    assert (outputs["state"], here["sum"], computed["sum"]) == ("completed", SUM, SUM)
    assert outputs["plan"]["instance"]["chosen"]["name"] == "m7i.large"
    assert len(cloud.live()) == 1
    assert "<value>modak-" in describe("DescribeInstances")
    resumed = opera.deploy()
    assert (resumed.code, len(cloud.launched)) == (0, 1), resumed.text
    kept = [path.read_text() for path in (anywhere.folder / ".opera").rglob("*") if path.is_file()]
    assert [text for text in kept if "PRIVATE KEY" in text or "secret-of-the-test" in text] == []
    anywhere.undeploy(opera)
    assert (cloud.live(), cloud.groups()) == ([], [])


def test_the_instance_of_a_job_that_fails_is_released(anywhere: Anywhere, cloud: Cloud) -> None:
    """The results come first, and what undeploys or deploys it again finds nothing in its way."""
    opera = anywhere.opera()
    opera.inputs(name=anywhere.name, site="instance", arguments=["--nonsense"])
    failed = opera.deploy(timeout=300)
    assert (failed.code != 0, "its instance was released" in failed.text) == (True, True), failed.text
    assert (len(cloud.launched), cloud.live(), cloud.groups()) == (1, [], [])
    assert "unrecognized arguments" in (opera.results / anywhere.name / "output.log").read_text()
    anywhere.undeploy(opera)
    described = yaml.safe_load((anywhere.folder / "deploy.yml").read_text())
    described["application"]["arguments"] = ["--nonsense"]
    anywhere.site.write(described)
    failed = anywhere.play("deploy", "instance")
    assert (failed.code != 0, "its instance was released" in failed.text) == (True, True), failed.text
    assert (len(cloud.launched), cloud.live(), cloud.groups()) == (2, [], [])


def test_an_instance_that_does_not_answer_is_deleted_all_the_same(anywhere: Anywhere, cloud: Cloud) -> None:
    opera = anywhere.opera()
    anywhere.orchestrated(opera, "instance")
    (machine,) = cloud.machines.values()
    machine.process.kill()
    machine.process.wait()
    shutil.rmtree(anywhere.folder / "state", ignore_errors=True)
    anywhere.undeploy(opera)
    assert (cloud.live(), cloud.groups()) == ([], [])


def test_two_jobs_share_the_instance_of_their_node(anywhere: Anywhere, cloud: Cloud) -> None:
    sites = anywhere.folder / "config" / "modak" / "sites.yaml"
    described = yaml.safe_load(sites.read_text())
    described["sites"]["instance"]["target"]["cloud"]["deployment"] = anywhere.name
    sites.write_text(yaml.safe_dump(described))
    opera = anywhere.opera()
    blueprint = yaml.safe_load(opera.blueprint.read_text())
    nodes = blueprint["topology_template"]["node_templates"]
    second = {**nodes["tiny"], "requirements": [{"host": "target"}, {"feed": "tiny"}]}
    second["properties"] = {**second["properties"], "name": f"{anywhere.name}-2"}
    nodes["second"] = second
    opera.blueprint.write_text(yaml.safe_dump(blueprint))
    anywhere.orchestrated(opera, "instance")
    assert (len(cloud.launched), len(cloud.live())) == (1, 1)
    assert {path.parent.name for path in opera.results.rglob("metrics.json")} >= {anywhere.name, f"{anywhere.name}-2"}
    anywhere.undeploy(opera)
    assert (cloud.live(), cloud.groups()) == ([], [])
