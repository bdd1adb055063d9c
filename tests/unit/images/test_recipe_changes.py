"""A changed recipe is a changed catalogue: a Plan that is kept does not outlive it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue

IMAGE = "version: 1\nimages: [{name: mine, source: base, origin: 'docker://docker.io/library/debian:12'}]\n"


def _recipe(folder: Path) -> None:
    (folder / "recipes" / "recipes.yaml").write_text("version: 1\nrecipes: [{entry: mine, packages: [gcc]}]\n")


def _lock(folder: Path) -> None:
    (folder / "recipes" / "locks" / "mine.txt").write_text("numpy==2.0 --hash=sha256:0\n")


def _build(folder: Path) -> None:
    (folder / "recipes" / "build" / "mine.sh.j2").write_text("true\n")


def _other_recipe(folder: Path) -> None:
    (folder / "recipes" / "recipes-other.yaml").write_text("version: 1\nrecipes: []\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in ("locks", "build"):
        (tmp_path / "recipes" / name).mkdir(parents=True)
    (tmp_path / "images.yaml").write_text(IMAGE)
    (tmp_path / "recipes" / "recipes.yaml").write_text("version: 1\nrecipes: [{entry: mine}]\n")
    (tmp_path / "recipes" / "locks" / "mine.txt").write_text("numpy==1.0 --hash=sha256:0\n")
    (tmp_path / "recipes" / "build" / "mine.sh.j2").write_text("false\n")
    return tmp_path


@pytest.mark.parametrize("change", [_recipe, _lock, _build, _other_recipe])
def test_every_file_of_a_recipe_counts(site: Path, change: Callable[[Path], None]) -> None:
    before = load_catalogue([site]).version
    assert load_catalogue([site]).version == before
    change(site)
    assert load_catalogue([site]).version != before


def test_a_file_that_no_recipe_can_name_does_not_count(site: Path) -> None:
    before = load_catalogue([site]).version
    (site / "recipes" / "README").write_text("notes")
    assert load_catalogue([site]).version == before
