"""Every command block of the README, and of the sections for a clone, run in order in a fresh clone."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import TOP, Rig

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {"deployment.md": "Try it on a Slurm of your own", "blueprints.md": "Install xOpera"}


def section(page: str, title: str) -> str:
    """Return the text of a section of a page."""
    return (TOP / "docs" / page).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


IN_SECTIONS = [block for page, title in SECTIONS.items() for block in BLOCK.findall(section(page, title))]
BLOCKS = [*BLOCK.findall((TOP / "README.md").read_text()), *IN_SECTIONS]
ITSELF = "make test"
"""The block that runs this test: running it from here would never end."""
NOT_THEIRS = ("ANSIBLE_", "MODAK_", "PYTEST_", "PYTHONPATH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(NOT_THEIRS)}
"""That of a user who has nothing to do with these tests."""
ACTIVATE = ". .venv/bin/activate"

pytestmark = pytest.mark.xdist_group("readme")  # it has a rig of its own, in its clone


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """A clone of what is committed, where every user can read it: jobs of an unprivileged user run its Python."""
    folder = Path(tempfile.mkdtemp(prefix="modak-readme.", dir="/var/tmp"))
    folder.chmod(0o755)
    subprocess.run(["git", "clone", "--quiet", str(TOP), str(folder / "modak")], check=True)
    yield folder / "modak"
    shutil.rmtree(folder)


def run(block: str, folder: Path) -> str:
    """Return what a block prints; it runs in one shell that stops at the first command that fails."""
    activate = f"{ACTIVATE}\n" if (folder / ".venv").exists() else ""
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", activate + block],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return done.stdout


@pytest.mark.long
def test_every_command_block_works_in_a_fresh_clone(clone: Path, real_slurm: Rig) -> None:
    printed = {}
    try:
        for block in BLOCKS:
            if not block.startswith(ITSELF):
                printed[block.splitlines()[0]] = run(block, clone)
    finally:
        subprocess.run([clone / "tests" / "real" / "slurm.sh", "down"], env=ENVIRONMENT, check=False, timeout=120)
    deployed = next(text for first, text in printed.items() if first.startswith("make deploy"))
    accuracy = re.search(r"accuracy: ([01]\.\d+)", deployed)
    assert accuracy is not None, deployed
    assert float(accuracy[1]) >= 0.97
    assert "results: " in deployed


def test_the_block_that_is_left_out_is_the_tests_own() -> None:
    assert [block for block in BLOCKS if block.startswith(ITSELF)]
    subprocess.run(["make", "--dry-run", "test"], cwd=TOP, check=True, stdout=subprocess.DEVNULL)


def test_the_sections_for_a_clone_are_there() -> None:
    assert any("make up" in block for block in IN_SECTIONS)
    assert any("opera deploy" in block for block in IN_SECTIONS)
