"""What the tests of blueprints share."""

import shutil
from pathlib import Path

import pytest

from modak_deploy.tosca import library

BASE = Path(__file__).parents[2] / "data" / "blueprints" / "base.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the library and the files that the base blueprint names."""
    shutil.copytree(library.folder(), tmp_path / "modak")
    for name in ("train.py", "check.yml", "more/train.py", "more/start.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("---\n")
    (tmp_path / "link.py").symlink_to("train.py")
    return tmp_path


@pytest.fixture
def base(project: Path) -> Path:
    """The base blueprint in its project."""
    shutil.copy(BASE, project)
    return project / BASE.name
