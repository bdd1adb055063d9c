"""Which of the faulty blueprints of the tests tosca-parser, xOpera, Unfurl, Puccini and modak refuse, as a table.

    python benchmarks/blueprint_faults.py > docs/blueprint-faults.md      # 8 minutes, with the tests' dependencies

The first run installs Unfurl and Puccini into .build/tosca.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from modak_deploy.errors import InputError  # noqa: E402
from modak_deploy.tosca.library import folder as library  # noqa: E402
from modak_deploy.tosca.validate import validate as check  # noqa: E402
from tosca_tools import HANGS, NEEDS, make, validate  # noqa: E402

DATA = TOP / "tests" / "data" / "blueprints"
TOOLS = ("tosca-parser", "opera", "unfurl", "puccini")


def refused_by_modak(blueprint: Path) -> bool:
    try:
        return bool(check(blueprint, None, "all"))
    except InputError:
        return True


def project() -> Path:
    """Return a new folder with the library and the files that the blueprints name."""
    place = Path(tempfile.mkdtemp())
    shutil.copytree(library(), place / "modak")
    for name in ("train.py", "check.yml", "more/train.py", "more/start.yml"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("---\n- hosts: all\n")
    (place / "link.py").symlink_to("train.py")
    return place


def row(place: Path, text: str) -> list[str]:
    """Return for each tool, ours last, what it does with the blueprint: refuses it, hangs, or nothing."""
    blueprint = place / "blueprint.yaml"
    blueprint.write_text(text)
    verdicts = [validate(tool, blueprint) for tool in TOOLS]
    words = ["-" if v.accepted else "hangs" if v.text == HANGS else "yes" for v in verdicts]
    return [*words, "yes" if refused_by_modak(blueprint) else "-"]


HEAD = """\
# Faulty blueprints, and which tools reject them

The table compares modak with the parsers and orchestrators of TOSCA: each row is a blueprint with a single error, from
`tests/data/blueprints/faulty.yaml`, and "yes" means that the tool rejects it. All tools accept the blueprint without
errors. `modak blueprint validate --for all` reports each error at its line. `python benchmarks/blueprint_faults.py`
writes this page.
"""


def main() -> None:
    for tool in NEEDS:
        make(tool)
    place = project()
    base = (DATA / "base.yaml").read_text()
    cases = yaml.safe_load((DATA / "faulty.yaml").read_text())
    print(HEAD)
    print(f"| error | {' | '.join([*TOOLS, 'modak'])} |")
    print("| --- |" + " --- |" * (len(TOOLS) + 1))
    if set(row(place, base)) != {"-"}:
        sys.exit("the blueprint without fault is refused")
    rows = []
    for case in cases:
        text = base
        for edit in case["edits"]:
            text = text.replace(edit["replace"], edit["by"], 1)
        rows.append(row(place, text))
        print(f"| {case['name']} | {' | '.join(rows[-1])} |", flush=True)
    sums = [column.count("yes") for column in zip(*rows, strict=True)]
    print(f"| **rejected, of {len(rows)}** | {' | '.join(f'**{number}**' for number in sums)} |")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
