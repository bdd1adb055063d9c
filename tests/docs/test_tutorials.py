"""Every command of the tutorials, in their order, and what it prints; those for clusters on a real Slurm over ssh."""

from difflib import unified_diff
from pathlib import Path

import pytest

import tutorials
from rig import Rig

PAGES = sorted(path for path in tutorials.FOLDER.glob("*.md") if path.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, real_slurm: Rig, login_torch: Path) -> None:
    text = page.read_text()
    difference = "\n".join(
        unified_diff(text.splitlines(), tutorials.run(page, real_slurm.ssh_config).splitlines(), "page", "run", "", "")
    )
    assert not difference, (
        f"{difference}\nrun MODAK_TUTORIAL_SSH={real_slurm.ssh_config} python tests/support/tutorials.py {page}"
    )
