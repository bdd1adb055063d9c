"""Which modules have tests of their own name, and which unit tests are of no single module.

mirror.py             # the counts of each package
mirror.py --list      # every module without a test, and every test without a module
"""

import sys
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
UNIT = TOP / "tests" / "unit"
SMALL = 25
"""Lines up to which a module needs no tests of its own: those of its package see to it."""


OTHERS = frozenset({"docs", "fuzz", "plugins", "scripts"})
"""Folders of tests of what is not in modak."""


def modules() -> dict[Path, Path]:
    """Return for every module the path of its tests below tests/unit, whether that is there or not."""
    wanted = {}
    for path in sorted((TOP / "modak_deploy").rglob("*.py")):
        below = path.relative_to(TOP / "modak_deploy")
        if "data" in below.parts or path.stem == "__main__":
            continue
        if path.stem == "__init__":  # a package whose class stands in its __init__.py, as a scheduler's
            if len(below.parts) == 1:
                continue
            below = below.parent.with_suffix(".py")
        wanted[path] = below.with_name(f"test_{below.name}")
    return wanted


def main() -> int:
    """Print what was asked for."""
    every = modules()
    wanted = {path: test for path, test in every.items() if len(path.read_text().splitlines()) > SMALL}
    there = {path.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}
    untested = [module for module, test in wanted.items() if test not in there]
    alone = sorted(test for test in there - set(every.values()) if test.parts[0] not in OTHERS)
    if "--list" in sys.argv:
        for module in untested:
            print(f"no test: {module.relative_to(TOP)}")
        for test in alone:
            print(f"no module: tests/unit/{test}")
    counts = Counter(module.relative_to(TOP).parts[1] for module in wanted)
    missing = Counter(module.relative_to(TOP).parts[1] for module in untested)
    for package, count in sorted(counts.items()):
        print(f"{count - missing[package]:4} of {count:3} {package}")
    tested = len(wanted) - len(untested)
    print(f"{tested} of {len(wanted)} modules have tests of their name; {len(alone)} tests have no module")
    return 0


if __name__ == "__main__":
    sys.exit(main())
