"""Every blueprint is accepted by tosca-parser, xOpera, Unfurl and Puccini, each as it is on the package index.

Unfurl deploys with the library's overlay.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.tosca.package import write_csar
from orchestrator import BLUEPRINTS, TINY_BLUEPRINT, connection
from rig import Rig
from sites import TINY
from tosca_tools import NEEDS, case_files, make, unfurl, validate

DATA = Path(__file__).parents[1] / "data" / "blueprints"
CONSTRUCTS: list[dict[str, Any]] = yaml.safe_load((DATA / "constructs.yaml").read_text())
TOOLS = ["tosca-parser", "opera", "unfurl", "puccini"]


@pytest.fixture(scope="module", params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    """A tool that can be called."""
    name: str = request.param
    if name in NEEDS:
        try:
            make(name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{name} cannot be installed here: {str(error.stderr).strip().splitlines()[-1]}")
    return name


@pytest.mark.parametrize("blueprint", sorted(BLUEPRINTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_tool_accepts(tool: str, blueprint: Path) -> None:
    verdict = validate(tool, blueprint)
    assert verdict.accepted, verdict.text


@pytest.mark.parametrize(
    "tool", [pytest.param(name, marks=[] if name == "opera" else [pytest.mark.long]) for name in TOOLS], indirect=True
)
@pytest.mark.parametrize("case", CONSTRUCTS, ids=[case["name"] for case in CONSTRUCTS])
def test_a_construct_is_rejected_by_the_tools_that_are_named(tool: str, case: dict[str, Any], tmp_path: Path) -> None:
    """What modak says of other tools is what they do, so a newer release shows here; ``make test`` asks xOpera."""
    text = (DATA / "base.yaml").read_text()
    for edit in case["edits"]:
        text = text.replace(edit["replace"], edit["by"], 1)
    shutil.copytree(BLUEPRINTS / "modak", tmp_path / "modak")
    for name in ("train.py", "check.yml", "more/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("---\n- hosts: all\n")
    (tmp_path / "b.yaml").write_text(text)
    verdict = validate(tool, tmp_path / "b.yaml")
    assert verdict.accepted == (tool not in case["rejected_by"]), verdict.text


TEMPLATES: list[dict[str, Any]] = yaml.safe_load((DATA / "unusual-templates.yaml").read_text())


@pytest.mark.parametrize("tool", ["opera"], indirect=True)
def test_xopera_takes_the_unusual_templates_but_for_those_that_are_named(tool: str, tmp_path: Path) -> None:
    rejected = []
    for number, case in enumerate(TEMPLATES):
        (tmp_path / str(number)).mkdir()
        if not validate(tool, case_files(case, tmp_path / str(number))).accepted:
            rejected.append(case["name"])
    assert rejected == [case["name"] for case in TEMPLATES if "rejected_by" in case]


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("tosca-parser", "digits-two-targets"),
        pytest.param("tosca-parser", "sodalite-slurm", marks=pytest.mark.long),
        ("opera", "digits-two-targets"),
        ("opera", "sodalite-slurm"),
        ("puccini", "digits-two-targets"),
        ("puccini", "sodalite-slurm"),
    ],
    indirect=["tool"],
)
def test_the_tool_takes_a_package(tool: str, name: str, tmp_path: Path) -> None:
    """Unfurl reads none."""
    write_csar(BLUEPRINTS / f"{name}.yaml", tmp_path / "b.csar")
    verdict = validate(tool, tmp_path / "b.csar")
    assert verdict.accepted, verdict.text


def test_the_tool_is_asked_at_all(tool: str, tmp_path: Path) -> None:
    shutil.copytree(BLUEPRINTS, tmp_path / "b")
    faulty = tmp_path / "b" / "digits-machine.yaml"
    faulty.write_text(faulty.read_text().replace("modak.nodes.application.AITraining", "modak.nodes.Nonsense"))
    assert not validate(tool, faulty).accepted


@pytest.mark.parametrize("tool", ["unfurl"], indirect=True)
def test_unfurl_deploys(tool: str, tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    """The blueprint is the one that xOpera deploys; the ensemble adds the overlay."""
    shutil.copytree(BLUEPRINTS / "modak", tmp_path / "modak")
    shutil.copy(TINY, tmp_path)
    text = TINY_BLUEPRINT.read_text().replace("modak.nodes.target.Machine", "modak.nodes.target.SlurmCluster")
    (tmp_path / "tiny.yaml").write_text(text)
    inputs = {"name": "by-unfurl", "arguments": ["--numbers=4"], "results": str(tmp_path / "results")}
    service = {"+include": "tiny.yaml", "decorators": {"+include": "modak/unfurl/decorators.yaml"}}
    spec = {"inputs": {**inputs, **connection(real_slurm)}, "service_template": service}
    head = {"apiVersion": "unfurl/v1alpha1"}
    project = {"kind": "Project", "ensembles": [{"file": "ensemble.yaml", "default": True}], "environments": {}}
    (tmp_path / "unfurl.yaml").write_text(yaml.safe_dump({**head, **project}))
    (tmp_path / "ensemble.yaml").write_text(yaml.safe_dump({**head, "kind": "Ensemble", "spec": spec}))
    deployed = unfurl(tmp_path, environment, "deploy", "--approve", "--jobexitcode", "error", "ensemble.yaml")
    assert deployed.code == 0, deployed.text
    outputs = yaml.safe_load((tmp_path / "ensemble.yaml").read_text())["status"]["outputs"]
    assert (outputs["state"], json.loads(outputs["metrics"]["sum"])) == ("completed", 14)
    assert real_slurm.ended(outputs["job_id"]) == ("by-unfurl", "COMPLETED")
    assert (Path(outputs["results_path"]) / "metrics.json").exists()
    undeployed = unfurl(tmp_path, environment, "undeploy", "--approve", "--jobexitcode", "error", "ensemble.yaml")
    assert undeployed.code == 0, undeployed.text
    assert not list((real_slurm.home / ".modak" / "runs").glob("by-unfurl-*"))
