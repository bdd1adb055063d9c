"""One application, of which one input tells the place: a machine, Slurm, a host of a cloud, a cluster of Kubernetes."""

import json
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import Orchestrator, connection
from rig import Rig
from sites import Site

PLACES = ("workstation", "cluster", "instance")
"""Where the tests can run it; the cluster of Kubernetes gets a manifest."""
NODE = {"cores": 2, "microarchitecture": "zen4", "memory": "4 GiB"}


@pytest.fixture
def name() -> str:
    """A name that no run before had."""
    return f"anywhere-{secrets.token_hex(4)}"


@pytest.fixture
def environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A user with files of sites of his own."""
    return {**environment, "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def folder(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> Path:
    """A user's folder, and the user's description of all places."""
    login = {**connection(real_slurm), "polling": {"first": 0.5, "maximum": 2.0}, "python": "/usr/bin/python3"}
    targets: dict[str, dict[str, Any]] = {
        "workstation": {
            "type": "machine",
            "workspace": str(tmp_path / "workspace"),
            "python": "/usr/bin/python3",
            "node": {**NODE, "microarchitecture": "zen3"},
        },
        "cluster": {**login, "type": "slurm", "node": {**NODE, "price": 0.5}},
        "instance": {
            **login,
            "type": "cloud",
            "cloud": {"provider": "existing"},
            "workspace": "~/.modak-instance",
            "node": {**NODE, "cores": 8},
        },
        "created": {
            "type": "cloud",
            "private_key": login["private_key"],
            "cloud": {
                "provider": "aws",
                "region": "us-east-1",
                "machine_image": "ami-0123456789abcdef0",
                "access": ["192.0.2.0/24"],
                "software": {"python": "/usr/bin/python3"},
            },
        },
        "kubernetes": {"type": "kubernetes", "node": {**NODE, "cores": 4}, "kubernetes": {"namespace": "team-a"}},
    }
    text = yaml.safe_dump({"version": 1, "sites": {place: {"target": target} for place, target in targets.items()}})
    described = Path(environment["XDG_CONFIG_HOME"]) / "modak" / "sites.yaml"
    described.parent.mkdir(parents=True)
    described.write_text(text)
    return tmp_path


def modak(folder: Path, environment: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "modak_deploy", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def document(name: str) -> dict[str, Any]:
    return {
        "application": {
            "name": name,
            "script": "tiny.py",
            "type": "hpc",
            "arguments": ["--seconds", "0.5"],
            "outputs": ["metrics.json"],
            "metrics": "metrics.json",
            "workload": {"model": name, "unit": "run", "units": 1},
        },
        "job": {"wall_time": "5m"},
    }


def test_one_document_by_the_playbooks(folder: Path, environment: dict[str, str], name: str) -> None:
    """The second document is one line. What the machine measured tells about the other places as well."""
    site = Site(folder, environment, None)
    site.write(document(name))
    for place in PLACES:
        (folder / "place.yml").write_text(f"target: {place}\n")
        where = [f"deployment={folder}/deploy.yml,{folder}/place.yml", "-e", f"results={folder}/{place}"]
        done = site.play("deploy", "-e", *where, "-e", json.dumps({"record": place == PLACES[0]}))
        assert done.code == 0, done.text
        plan = json.loads((folder / place / name / "plan.json").read_text())
        metrics = json.loads((folder / place / name / "metrics.json").read_text())
        assert (plan["target"]["name"], metrics["sum"]) == (place, 332833500)
        assert (metrics["job"] is not None) == (place == "cluster")
        again = site.play("deploy", "-e", *where)
        assert again.code == 0, again.text
        assert "changed=0" in again.text
    compare(folder, environment)
    for place in PLACES:
        (folder / "place.yml").write_text(f"target: {place}\n")
        where = [f"deployment={folder}/deploy.yml,{folder}/place.yml", "-e", f"results={folder}/{place}"]
        done = site.play("undeploy", "-e", *where)
        assert done.code == 0, done.text


def compare(folder: Path, environment: dict[str, str]) -> None:
    """Check the table of all places, and the same in JSON."""
    others = ["cluster", "instance", "created", "kubernetes"]
    (folder / "places.yml").write_text(yaml.safe_dump({"target": "workstation", "other_targets": others}))
    words = ("plan", "deploy.yml", "places.yml")
    table = modak(folder, environment, *words).splitlines()
    rows = {
        row[2:].split()[0]: row for row in table[next(n for n, r in enumerate(table) if r[:6] == "target") :] if row
    }
    assert "measurement  not stated" in rows["workstation"]
    assert "modelled" in rows["cluster"]
    assert "not stated" not in rows["cluster"]
    assert "modelled" in rows["instance"]
    assert "not stated" in rows["instance"]
    assert "modelled" in rows["created"]
    assert " USD " in rows["created"]
    assert "cannot" in rows["kubernetes"], "the application names no image"
    plan = json.loads(modak(folder, environment, *words, "--json"))
    basis = {o["target"]["name"]: o["prediction"] and o["prediction"]["basis"] for o in plan["other_targets"]}
    assert (plan["prediction"]["basis"], plan["cost"]["unit"]) == ("measurement", "node-hours")
    assert basis == {"cluster": "modelled", "instance": "modelled", "created": "modelled", "kubernetes": None}
    for other in plan["other_targets"]:
        if other["prediction"]:
            assert other["prediction"]["low"] <= other["prediction"]["seconds"] <= other["prediction"]["high"]


def test_one_blueprint_by_xopera(folder: Path, environment: dict[str, str], name: str) -> None:
    opera = Orchestrator.on_tiny(folder, environment, "Site")
    blueprint = yaml.safe_load(opera.blueprint.read_text())
    topology = blueprint["topology_template"]
    topology["node_templates"]["target"]["properties"] = {"site": {"get_input": "site"}}
    topology["inputs"]["site"] = {"type": "string", "default": ""}
    opera.blueprint.write_text(yaml.safe_dump(blueprint))
    for place in PLACES:
        opera.inputs(name=name, site=place)
        deployed = opera.deploy()
        assert deployed.code == 0, deployed.text
        outputs = opera.outputs()
        assert outputs["state"] == "completed"
        assert outputs["plan"]["target"]["type"] == {"workstation": "machine", "instance": "cloud"}.get(place, "slurm")
        assert (json.loads((Path(outputs["results_path"]) / "metrics.json").read_text())["job"] is not None) == (
            place == "cluster"
        )
        undeployed = opera.run("undeploy")
        assert undeployed.code == 0, undeployed.text
        shutil.rmtree(folder / ".opera")


def test_the_manifest_for_kubernetes(folder: Path, environment: dict[str, str], name: str) -> None:
    described = document(name)
    described["application"]["image"] = f"docker://example.org/team/anywhere@sha256:{'a' * 64}"
    (folder / "deploy.yml").write_text(yaml.safe_dump(described))
    (folder / "place.yml").write_text("target: kubernetes\n")
    Site(folder, environment, None)
    modak(folder, environment, "plan", "deploy.yml", "place.yml", "--output", "plan.json")
    (job,) = [
        part
        for part in yaml.safe_load_all(modak(folder, environment, "manifest", "plan.json", "--work-claim", "scratch"))
        if part["kind"] == "Job"
    ]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert job["spec"]["backoffLimit"] == 0
    assert f"docker://{container['image']}" == described["application"]["image"]
    both = json.loads(modak(folder, environment, "manifest", "plan.json", "--work-claim", "scratch", "--json"))
    assert [part["kind"] for part in both["items"]] == ["ConfigMap", "Job"]
