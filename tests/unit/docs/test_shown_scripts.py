"""Scripts, variables of playbooks and roles, and files of the checkout that pages name are there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modak_deploy.documents import RunOptions

TOP = Path(__file__).resolve().parents[3]
PAGES = [
    *sorted(TOP.glob("*.md")),
    *(page for folder in ("docs", "benchmarks", "tests") for page in sorted((TOP / folder).rglob("*.md"))),
]
SCRIPT = re.compile(r"python\S* ((?:benchmarks|scripts|tests)/[\w/.-]+\.py|-m modak_deploy\.launch)([^`|\n#]*)")
FILE = re.compile(r"`((?:modak_deploy|scripts|tests|benchmarks|roles|plugins|playbooks|examples)/[\w/.-]+)`")
EXTRA = re.compile(r" -e ([a-z_]+)=")
ROLES = re.compile(r"`((?:application|batch_job|benchmark|image|inference|tune)_[a-z_]+)`")
OF_TUNE = {"rounds", "batch", "budget", "confirm"}


def faults(text: str, variables: set[str]) -> Iterator[str]:
    """Yield what a page names that is not there."""
    text = text.replace("\\\n", " ")
    for name, arguments in SCRIPT.findall(text):
        script = TOP / ("modak_deploy/launch/__main__.py" if name.startswith("-m") else name)
        if not script.is_file():
            yield name
            continue
        source = script.read_text()
        options = re.findall(r"(?<!\S)--[a-z][a-z-]*", arguments.partition(" -- ")[0])  # then comes another command
        yield from (f"{name} {word}" for word in options if f'"{word}"' not in source)
    yield from (path for path in FILE.findall(text) if not (TOP / path.rstrip("/")).exists())
    yield from (name for name in (*EXTRA.findall(text), *ROLES.findall(text)) if name not in variables)


@pytest.fixture(scope="module")
def variables() -> set[str]:
    modules = {path.stem for path in (TOP / "plugins" / "modules").glob("*.py")}  # batch_job_info is no variable
    known = {"deployment", *RunOptions.model_fields, *OF_TUNE, *modules}
    for path in sorted((TOP / "roles").glob("*/meta/argument_specs.yml")):
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values():
            known |= {*spec["options"], *re.findall(r"C\((\w+)\)", str(spec["description"]))}
    return known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_what_a_page_names_is_there(page: Path, variables: set[str]) -> None:
    assert list(faults(page.read_text(), variables)) == []


def test_what_is_not_there_is_recognised(variables: set[str]) -> None:
    text = (
        "`python benchmarks/programs.py --lits` and `benchmarks/programs.py`, `tests/nowhere.py`, `benchmark_lever`\n"
        "    python -m modak_deploy.launch --trials survey --share 1 \\\n      --nmerics relaxed -- python x.py --own\n"
        "    ansible-playbook modak.deploy.tune -e deployment=d.yml -e round=1\n"
    )
    assert list(faults(text, variables)) == [
        "benchmarks/programs.py --lits",
        "-m modak_deploy.launch --nmerics",
        "tests/nowhere.py",
        "round",
        "benchmark_lever",
    ]
