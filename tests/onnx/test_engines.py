"""An inference planned over a framework and three engines: by measurements, and by trials where there are none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.onnx.bundle import read_bundle
from rig import TOP
from sites import Site

EXAMPLE = TOP / "examples" / "engines"
ENGINES = ("onnxruntime", "openvino", "tvm")
for package in ("torch", "onnxscript", *ENGINES):
    pytest.importorskip(package)


def modak(site: Site, *arguments: str) -> str:
    """Run a command of modak in the user's folder; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "modak_deploy", *arguments],
        cwd=site.folder, env=site.environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def plan_of(site: Site) -> dict[str, Any]:
    """Return the Plan of the user's document."""
    plan: dict[str, Any] = json.loads(modak(site, "plan", "deploy.yml", "--json"))
    return plan


def predictions(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the prediction of each engine without levers, by the candidate's name."""
    found = {ranked["candidate"]["name"]: ranked["prediction"] for ranked in plan["alternatives"]}
    found[plan["chosen"]["name"]] = plan["prediction"]
    return {name: found[name] for name in ("as-is", *ENGINES)}


@pytest.fixture
def site(tmp_path: Path, environment: dict[str, str]) -> Site:
    """A user with the example, its weights, and a store without measurements."""
    if shutil.which("ansible-playbook", path=environment["PATH"]) is None:
        pytest.skip("ansible-playbook is not on the PATH")
    user = Site(tmp_path, environment, None)
    for file in EXAMPLE.glob("*.*"):
        shutil.copy(file, tmp_path)
    user.environment["MODAK_MEASUREMENTS"] = f"sqlite:///{tmp_path / 'store.db'}"
    document = yaml.safe_load((EXAMPLE / "deploy.yml").read_text())
    document["target"] |= {"python": sys.executable, "workspace": str(tmp_path / "space"), "runtimes": ["native"]}
    document["application"] |= {"arguments": ["--calls", "20000"]}
    document["application"]["workload"]["units"] = 20000
    document["application"]["environment"] = {"PYTHONPATH": str(TOP)}
    user.write(document)
    done = subprocess.run([sys.executable, "prepare.py"], cwd=tmp_path, env=dict(os.environ), capture_output=True)
    assert done.returncode == 0, done.stderr
    return user


def test_the_measured_best_is_chosen_else_trials_find_it(site: Site) -> None:
    modak(site, "convert", "convert.yml", "-o", "bundle")
    read_bundle(site.folder / "bundle").verify()
    shutil.copy(site.folder / "bundle" / "models" / "response-net" / "model.onnx", site.folder)

    # PyTorch is made the slowest here, so that there is something to find.
    program = (site.folder / "infer.py").read_text()
    slower = "            time.sleep(0.02)\n            with torch.inference_mode():"
    assert "            with torch.inference_mode():" in program
    (site.folder / "infer.py").write_text(program.replace("            with torch.inference_mode():", slower))

    plan = plan_of(site)
    assert plan["chosen"]["engine"] is None and "nothing was measured" in plan["reason"]
    tried = [candidate["engine"] for candidate in plan["restart"]["candidates"]]
    assert tried[:4] == [None, *ENGINES], plan["rejected"]

    deployed = site.play("deploy", timeout=400)
    assert deployed.code == 0, deployed.text
    folder = site.folder / "results" / "response"
    trials = json.loads((folder / "job.json").read_text())["restart"]
    ran = json.loads((folder / "metrics.json").read_text())["engine"]
    measured = {trial["name"] for trial in trials["trials"] if trial["state"] in ("measured", "beaten")}
    assert {"as-is", *ENGINES} <= measured, [(each["name"], each["state"], each["reason"]) for each in trials["trials"]]
    assert trials["chosen"] == ran, trials

    learnt = plan_of(site)
    timed = {trial["name"] for trial in trials["trials"] if trial["steady"]}  # others were too slow to begin with
    assert {"as-is", ran} <= timed
    found = predictions(learnt)
    assert all(found[name]["basis"] in ("trial", "measurement") for name in timed & found.keys()), found
    assert learnt["chosen"]["engine"] == ran and ran in ENGINES, (learnt["reason"], trials)

    site.environment["MODAK_MEASUREMENTS"] = f"sqlite:///{site.folder / 'other.db'}"
    shutil.rmtree(site.folder / "bundle")
    modak(site, "convert", "convert.yml", "-o", "bundle", "--record")
    known = plan_of(site)
    found = predictions(known)
    assert all(one["basis"] == "measurement" for one in found.values()), found
    fastest = min(found, key=lambda name: found[name]["seconds"])
    assert known["chosen"]["name"] == fastest or "this interval includes 1" in known["reason"], known["reason"]
    assert known["reason"].startswith(f"{fastest} is predicted") or known["chosen"]["engine"] is None
    assert not {*ENGINES} & {one["engine"] for one in (known["restart"] or {"candidates": []})["candidates"][1:]}
