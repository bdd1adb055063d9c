"""Pages that are made from the models or the data say what these say now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
PAGES = [
    *(TOP / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((TOP / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")


def test_the_reference_is_current() -> None:
    """The tables of evidence take longer, and are a step of their own of the suite."""
    done = subprocess.run(
        [sys.executable, TOP / "scripts" / "reference.py", "--check"],
        env={"PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_manual_page_is_current() -> None:
    done = subprocess.run([sys.executable, TOP / "scripts" / "manpage.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_pictures_and_the_page_of_types_are_current() -> None:
    done = subprocess.run([sys.executable, TOP / "scripts" / "pictures.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_sites_navigation() -> None:
    configuration = (TOP / "mkdocs.yml").read_text()
    pages = [path.relative_to(TOP / "docs").as_posix() for path in PAGES if path.is_relative_to(TOP / "docs")]
    assert [page for page in pages if f": {page}\n" not in configuration] == []


def test_the_readme_is_short_and_its_links_are_in_the_collection() -> None:
    text = (TOP / "README.md").read_text()
    assert len(text.splitlines()) < 80
    galaxy = yaml.safe_load((TOP / "galaxy.yml").read_text())
    assert [link for link in LINK.findall(text) if link.split("/")[0] in galaxy["build_ignore"]] == []


def test_the_readmes_of_roles_are_current() -> None:
    done = subprocess.run(
        [sys.executable, TOP / "scripts" / "role_readmes.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_all_modules_share_their_defaults_by_a_group() -> None:
    groups = yaml.safe_load((TOP / "meta" / "runtime.yml").read_text())["action_groups"]
    assert groups == {"modak": sorted(path.stem for path in (TOP / "plugins" / "modules").glob("*.py"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_the_page_of_faulty_blueprints_has_every_case() -> None:
    """What the tools say takes minutes to ask; that modak refuses each is tried elsewhere."""
    cases = yaml.safe_load((TOP / "tests" / "data" / "blueprints" / "faulty.yaml").read_text())
    rows = [line.split(" | ") for line in (TOP / "docs" / "blueprint-faults.md").read_text().splitlines()]
    told = {row[0].removeprefix("| "): row[-1].removesuffix(" |") for row in rows if len(row) == 6}
    assert {case["name"] for case in cases} == told.keys() - {"error", "---"} - {name for name in told if "**" in name}
    assert {told[case["name"]] for case in cases} == {"yes"}, "run python benchmarks/blueprint_faults.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    files = (TOP / "tests").rglob("test_*.py")
    there = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert set(re.findall(r"`(test_\w+)`", page.read_text())) <= there


def test_the_page_of_diagnostics_has_every_code() -> None:
    page = (TOP / "docs" / "diagnostics.md").read_text()
    sources = [path.read_text() for path in (TOP / "modak_deploy").rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'\bcode ?= ?"([a-z]+(?:-[a-z]+)*)"', text)}
    assert {"missing-key", "interrupted"} <= codes
    assert sorted(code for code in codes if f"`{code}`" not in page) == []
