"""The library is imported as modak_deploy everywhere: a package modak is another project's on the index.

The command modak, the collection modak.deploy, TOSCA's types modak.nodes.*, entry point groups, labels of images, and
folders of the user keep their names.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
PACKAGE = "modak_deploy"
EXCEPTED = {"CHANGELOG.md", "changelogs/changelog.yaml", "tests/unit/docs/test_import_name.py"}
GROUPS = ("containers", "engines", "lever_effects", "providers", "schedulers")
"""Entry point groups, whose names are those of packages."""
MODULES = "|".join(
    sorted(path.stem for path in (TOP / PACKAGE).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
)
FORMS = re.compile(
    r"^\s*(?:>>> )?(?:import\s+(?:[\w.]+,\s*)*modak(?![\w/-])|from\s+modak(?:\.[\w.]+)?\s+import\b)"
    r"|(?<![\w./-])(?:import|from) modak\.\w+"
    r"|-m[\s\"',]+modak(?![\w-])(?!\.deploy\.)"
    rf"|(?<![\w./~$@{{}}-])modak\.(?!(?:{'|'.join((*GROUPS, 'deploy'))})\b)(?:{MODULES})(?![\w/-])"
    rf"|(?<![\w./~$@{{}}-])modak\.(?:{'|'.join(GROUPS)})[.:]\w"
    r"|(?:files|import_module|script_text)\(\"modak[.\"]"
    rf"|(?<![\w./~$@{{}}-])modak/(?:{MODULES})(?![\w-])"
    r"|(?:TOP|parents\[\d\]) / \"modak\""
)


def lines_with_the_name() -> list[tuple[str, str]]:
    done = subprocess.run(["git", "grep", "-Inw", "modak"], cwd=TOP, capture_output=True, text=True, check=True)
    found = [line.split(":", 2) for line in done.stdout.splitlines()]
    return [(f"{name}:{number}", text) for name, number, text in found if name not in EXCEPTED]


def test_nothing_imports_a_package_modak() -> None:
    assert [f"{where}: {text.strip()}" for where, text in lines_with_the_name() if FORMS.search(text)] == []


def test_the_distribution_has_no_package_modak() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    tops = {wheel["sources"].get(folder, folder).split("/")[0] for folder in wheel["only-include"]}
    assert tops == {PACKAGE, "ansible_collections"}
    assert project["project"]["scripts"] == {"modak": f"{PACKAGE}.cli:main"}
    entries = [value for group in project["project"]["entry-points"].values() for value in group.values()]
    assert [entry for entry in entries if not entry.startswith(f"{PACKAGE}.")] == []
    tracked = subprocess.run(["git", "ls-files", "modak"], cwd=TOP, capture_output=True, text=True, check=True)
    assert tracked.stdout == ""


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("import modak", True),
        ("import sys, modak.cli", True),
        ("from modak import errors", True),
        ("    from modak.deploy.screen import Screen", True),
        ("python -m modak plan", True),
        ('[sys.executable, "-m", "modak.cli"]', True),
        ('monkeypatch.setattr("modak.jobs.watch.sleep", pass_over)', True),
        ('slurm = "modak.schedulers.slurm:Slurm"', True),
        ('files("modak.containers").joinpath("data")', True),
        ("see modak/jobs/sh/lock.sh", True),
        ('TOP / "modak"', True),
        ('[project.entry-points."modak.schedulers"]', False),
        ("registered in the group ``modak.containers``.", False),
        ("ansible-playbook modak.deploy.deploy", False),
        ("ansible localhost -m modak.deploy.target_info", False),
        ("  modak.deploy.image:", False),
        ("from ansible_collections.modak.deploy.plugins import action", False),
        ('"schema": "modak.model/6"', False),
        ("type: modak.nodes.Job", False),
        ("/etc/modak/sites.yaml and ~/.modak/images", False),
        ("imports: [modak/modak.yaml]", False),
        ("from modak_deploy.cli import main", False),
    ],
)
def test_the_pattern(line: str, is_wrong: bool) -> None:
    assert bool(FORMS.search(line)) is is_wrong
