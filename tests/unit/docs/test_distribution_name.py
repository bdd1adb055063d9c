"""The distribution is named modak-deploy everywhere: modak is another project's on the Python Package Index."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).parents[3]
NAME = "modak-deploy"
# What pip would be told to install, as a command, with extras, or as a requirement.
FOREIGN = re.compile(
    r"(?:install|uninstall|download)\s+(?:-\S+\s+)*[\"'`]?modak(?![\w./*:-])|(?<![\w./-])modak\[[a-z]|^\s*-?\s*modak\s*[><=~]="
    r"|dependencies = \[[^\]]*[\"']modak[\"' ><=~\[]"
)
EXCEPTED = {"plugins/plugin_utils/library.py", "scripts/setup.py", "tests/unit/docs/test_distribution_name.py"}


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if name not in EXCEPTED and not name.startswith("CHANGELOG")]


def test_the_project_has_this_name() -> None:
    assert tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["name"] == NAME


def test_execution_environments_install_it() -> None:
    environment = yaml.safe_load((TOP / "meta" / "execution-environment.yml").read_text())
    requirements = (TOP / environment["dependencies"]["python"]).read_text().splitlines()
    assert [line for line in requirements if line and not line.startswith("#")] == [f"{NAME}>=0.1.0"]


def test_nothing_installs_the_other_project() -> None:
    wrong = []
    for name in tracked():
        try:
            text = (TOP / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if "modak" in text:
            wrong += [
                f"{name}:{number}: {line}" for number, line in enumerate(text.splitlines(), 1) if FOREIGN.search(line)
            ]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install modak", True),
        ("pip install 'modak[onnx]'", True),
        ("modak>=0.1.0", True),
        ("pip install --quiet modak", True),
        ('dependencies = ["modak", "onnx"]', True),
        ('dependencies = ["modak-deploy", "onnx"]', False),
        ("pip install 'modak-deploy[onnx]'", False),
        ("modak-deploy>=0.1.0", False),
        ("ansible-galaxy collection install modak.deploy", False),
        ("pip install modak_deploy-0.1.0.whl", False),
    ],
)
def test_the_pattern(line: str, is_wrong: bool) -> None:
    assert bool(FOREIGN.search(line)) is is_wrong
