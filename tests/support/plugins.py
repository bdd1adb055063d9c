"""Distributions in tests/data/plugins, as if they were installed."""

import shutil
import tomllib
from pathlib import Path

import pytest

from modak_deploy.extensions import ENGINES, LEVER_EFFECTS, PROVIDERS, RUNTIMES, SCHEDULERS, TARGETS

DATA = Path(__file__).parents[1] / "data" / "plugins"


def install(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a distribution into ``folder`` as pip does, with its metadata, and put that on Python's path."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("pyproject.toml", "__pycache__"))
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    register(folder, project["name"], project["entry-points"])
    forget(monkeypatch)
    monkeypatch.syspath_prepend(folder)
    return folder


def register(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    """Write the metadata of a distribution with these entry points."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the metadata be read anew, now and after the test."""
    for registry in (SCHEDULERS, TARGETS, RUNTIMES, LEVER_EFFECTS, ENGINES, PROVIDERS):
        monkeypatch.setitem(vars(registry), "installed", None)  # restores what was there
        del vars(registry)["installed"]
