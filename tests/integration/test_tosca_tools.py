"""Every blueprint is accepted by tosca-parser, xOpera, Unfurl and Puccini, each as it is on the package index."""

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator import BLUEPRINTS
from tosca_tools import NEEDS, make, validate

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


def test_the_tool_is_asked_at_all(tool: str, tmp_path: Path) -> None:
    shutil.copytree(BLUEPRINTS, tmp_path / "b")
    faulty = tmp_path / "b" / "digits-machine.yaml"
    faulty.write_text(faulty.read_text().replace("modak.nodes.application.AITraining", "modak.nodes.Nonsense"))
    assert not validate(tool, faulty).accepted
