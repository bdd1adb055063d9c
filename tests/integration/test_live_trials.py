"""An unchanged program of PyTorch that is deployed: it is tried in, and the next Plan knows what was found."""

import contextlib
import importlib.util
import json
import sqlite3
import subprocess
from typing import Any

import pytest

from sites import Site

PROGRAM = """import sys
import torch

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3))
images = torch.rand(4, 3, 64, 64)
model.eval()
with torch.inference_mode():
    for _ in range(4000):
        model(images)
sys.exit(int(sys.argv[1]))
"""
"""It takes some seconds: on a loaded machine, noise would use up what trials may lose in a shorter job."""


def document(site: Site, code: int, **request: Any) -> None:
    (site.folder / "infer.py").write_text(PROGRAM)
    site.write(
        {
            "application": {
                "name": "tried",
                "type": "ai_inference",
                "script": "infer.py",
                "arguments": [str(code)],
                "framework": {"name": "pytorch"},
                "workload": {"model": "tiny-net", "unit": "call", "units": 4000},
            },
            "target": {"name": "here", "workspace": str(site.folder / "space"), "runtimes": ["native"]},
            "request": request,
        }
    )
    site.environment["MODAK_MEASUREMENTS"] = f"sqlite:///{site.folder / 'store.db'}"


@pytest.fixture
def site(machine_site: Site) -> Site:
    """A user of PyTorch with a store of his own."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    return machine_site


def test_what_a_deployment_tried_the_next_plan_knows(site: Site) -> None:
    document(site, 0, forbid_levers=["pytorch-keep-memory"])  # under load, noise lets it stay at times
    deployed = site.play("deploy", timeout=300)
    assert deployed.code == 0, deployed.text
    job = json.loads((site.folder / "results" / "tried" / "job.json").read_text())
    tuning = job["tuning"]
    assert tuning["counted"][0]["name"] == "inference: Sequential" and tuning["counted"][0]["units"] == 4000
    names = [trial["levers"] for trial in tuning["trials"]]
    assert ["pytorch-channels-last"] in names
    assert not any("bf16" in lever for levers in names for lever in levers)
    assert "tried pytorch-channels-last: " in deployed.text
    planned = subprocess.run(
        ["modak", "plan", "deploy.yml", "--json"],
        cwd=site.folder, env=site.environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    plan = json.loads(planned.stdout)
    found = {ranked["candidate"]["name"]: ranked["prediction"]["basis"] for ranked in plan["alternatives"]}
    found[plan["chosen"]["name"]] = plan["prediction"]["basis"]
    assert found["as-is"] == found["pytorch-channels-last"] == "trial"


def test_a_program_ends_as_it_would_alone(site: Site) -> None:
    document(site, 3, trials="live")
    deployed = site.play("deploy")
    assert deployed.code != 0
    job = json.loads((site.folder / "results" / "tried" / "job.json").read_text())
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert job["tuning"]["trials"]
    with contextlib.closing(sqlite3.connect(site.folder / "store.db")) as store:
        assert store.execute("select count(*) from modak_measurement").fetchall() == [(0,)]
