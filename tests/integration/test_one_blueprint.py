"""One application, of which one input tells the place: a machine, Slurm, a host of a cloud, a cluster of Kubernetes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from anywhere import IMAGE, NODE, SUM, Anywhere, workstation
from orchestrator import connection
from rig import Rig

PLACES = ("workstation", "cluster", "instance")
"""What this suite can run it on. tests/cloud creates the instance, and tests/kubernetes has a cluster of Kubernetes."""


@pytest.fixture
def anywhere(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> Anywhere:
    """A user's folder, and the user's description of all targets."""
    login = {
        **connection(real_slurm),
        "polling": {"first": 0.5, "maximum": 2.0},
        "python": "/usr/bin/python3",
        "runtimes": ["native"],
    }
    targets: dict[str, dict[str, Any]] = {
        "workstation": workstation(tmp_path),
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
    return Anywhere(tmp_path, environment, targets)


def modak(anywhere: Anywhere, *words: str) -> str:
    command = [sys.executable, "-m", "modak_deploy", *words]
    done = subprocess.run(
        command, cwd=anywhere.folder, env=anywhere.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_document_by_the_playbooks(anywhere: Anywhere) -> None:
    """The second document is one line. What the machine measured tells about the other places as well."""
    for place in PLACES:
        # Said in both runs: a run that says nothing records a job that had no neighbours, also one that ended before.
        record = ("-e", json.dumps({"record": place == PLACES[0]}))
        done = anywhere.play("deploy", place, *record)
        assert done.code == 0, done.text
        plan, metrics = anywhere.played(place)
        assert (plan["target"]["name"], plan["chosen"]["runtime"], metrics["sum"]) == (place, "native", SUM)
        assert (metrics["job"] is not None) == (place == "cluster")
        again = anywhere.play("deploy", place, *record)
        assert again.code == 0, again.text
        assert "changed=0" in again.text
    compare(anywhere)
    for place in PLACES:
        done = anywhere.play("undeploy", place)
        assert done.code == 0, done.text


def compare(anywhere: Anywhere) -> None:
    """Check the table of all places, and the same in JSON."""
    others = ["cluster", "instance", "created", "kubernetes"]
    (anywhere.folder / "places.yml").write_text(yaml.safe_dump({"target": "workstation", "other_targets": others}))
    words = ("plan", "deploy.yml", "places.yml")
    table = modak(anywhere, *words).splitlines()
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
    assert "cannot" not in rows["kubernetes"]
    plan = json.loads(modak(anywhere, *words, "--json"))
    assert (plan["prediction"]["basis"], plan["cost"]["unit"]) == ("measurement", "node-hours")
    predictions = {other["target"]["name"]: other["prediction"] for other in plan["other_targets"]}
    assert {predictions[name]["basis"] for name in ("cluster", "instance", "created")} == {"modelled"}
    for prediction in predictions.values():
        if prediction["seconds"] is not None:
            assert prediction["low"] <= prediction["seconds"] <= prediction["high"]


@pytest.mark.parametrize(
    "places",
    [pytest.param(("instance",), id="instance"), pytest.param(PLACES, id="each", marks=pytest.mark.long)],
)
def test_one_blueprint_by_xopera(anywhere: Anywhere, places: tuple[str, ...]) -> None:
    opera = anywhere.opera()
    for place in places:
        outputs, metrics = anywhere.orchestrated(opera, place)
        assert outputs["state"] == "completed"
        assert outputs["plan"]["target"]["type"] == {"workstation": "machine", "instance": "cloud"}.get(place, "slurm")
        assert (metrics["sum"], metrics["job"] is not None) == (SUM, place == "cluster")
        anywhere.undeploy(opera)


def test_the_manifest_for_kubernetes(anywhere: Anywhere) -> None:
    (anywhere.folder / "place.yml").write_text("target: kubernetes\n")
    modak(anywhere, "plan", "deploy.yml", "place.yml", "--output", "plan.json")
    manifest = ("manifest", "plan.json", "--work-claim", "scratch")
    (job,) = [part for part in yaml.safe_load_all(modak(anywhere, *manifest)) if part["kind"] == "Job"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert job["spec"]["backoffLimit"] == 0
    assert f"docker://{container['image']}" == IMAGE
    both = json.loads(modak(anywhere, *manifest, "--json"))
    assert [part["kind"] for part in both["items"]] == ["ConfigMap", "Job"]
