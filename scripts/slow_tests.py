"""Write tests/slow.txt, the unit tests that make check leaves out: slow_tests.py JUNIT...

The files are what pytest's ``--junitxml`` made of the suite's steps, one each:

    PYTEST_ADDOPTS=--junitxml=unit.xml python scripts/suite.py unit

Give it those of ``unit`` and ``unit-launch``, then those of ``unit-quick`` and ``unit-launch-quick`` until nothing is
added: what a fixture takes that several tests share counts for the first of them. What the files do not have stays
listed.
A test is slow where one of its cases takes more than 0.15 s on average, or all of them more than 2 s. What is quick has
no list, so that a new test belongs to make check until the next one is made.
"""

import statistics
import sys
import xml.etree.ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LIST = TOP / "tests" / "slow.txt"
MOST_EACH, MOST_ALL = 0.15, 2.0
"""Seconds of one case, on average, and of all cases of a quick test."""


def main(paths: Sequence[str]) -> int:
    """Write the list from these files."""
    if not paths:
        sys.exit(__doc__)
    times: dict[str, list[float]] = {}
    for path in paths:
        for name, seconds in _cases(Path(path)):
            times.setdefault(name, []).append(seconds)
    slow = {name for name, each in times.items() if statistics.fmean(each) > MOST_EACH or sum(each) > MOST_ALL}
    listed = set(LIST.read_text(encoding="utf-8").split()) if LIST.exists() else set()
    LIST.write_text("".join(f"{name}\n" for name in sorted(slow | (listed - set(times)))), encoding="utf-8")
    left = sum(sum(each) for name, each in times.items() if name not in slow)
    print(f"{len(slow)} of {len(times)} tests are slow; the others take {left:.0f} s together")
    return 0


def _cases(path: Path) -> Iterator[tuple[str, float]]:
    """Yield the test function of each case, as ``FILE::CLASS::NAME``, with its seconds."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):  # noqa: S314 - what our own tests wrote
        parts = case.get("classname", "").split(".")
        count = next(
            (n for n in range(len(parts), 0, -1) if (TOP / "/".join(parts[:n])).with_suffix(".py").is_file()), 0
        )
        if count:
            file = "/".join(parts[:count]) + ".py"
            function = case.get("name", "").partition("[")[0]
            yield "::".join([file, *parts[count:], function]), float(case.get("time", "0"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
