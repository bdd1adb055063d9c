"""Write the lists of tests that the quicker tiers leave out, tests/left-out/TIER.txt: left_out.py check|test JUNIT...

The files are what pytest's ``--junitxml`` made of the steps of ``suite.py all``, one each:

    PYTEST_ADDOPTS=--junitxml=unit.xml python scripts/suite.py unit

Give it those of ``unit`` and ``unit-launch``, for ``test`` also that of ``integration``; then those of the tier's own
steps, until nothing is added: what a fixture takes that several tests share counts for the first of them. What the
files do not have stays listed. What is quick has no list, so that a new test belongs to all tiers until the next one is
made.
"""

import statistics
import sys
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
FOLDER = TOP / "tests" / "left-out"


class Limit(NamedTuple):
    """Seconds of one case on average, and of all cases of a test that a tier runs."""

    each: float
    whole: float


LIMITS: Mapping[str, Mapping[str, Limit]] = {
    "check": {"tests/unit": Limit(0.15, 2)},
    "test": {"tests/unit": Limit(2, 20), "tests/integration": Limit(10, 60)},
}
KEEPS_ONE = frozenset({"test"})
"""Tiers that run the quickest test of each file, however long it takes."""
Times = Mapping[str, Sequence[float]]


def main(arguments: Sequence[str]) -> int:
    """Write the list of a tier from these files."""
    if len(arguments) < 2 or arguments[0] not in LIMITS:
        sys.exit(__doc__)
    tier, *files = arguments
    times: dict[str, list[float]] = {}
    for file in files:
        for name, seconds in _cases(Path(file)):
            times.setdefault(name, []).append(seconds)
    slow = left_out(tier, times)
    path = FOLDER / f"{tier}.txt"
    before = set(path.read_text(encoding="utf-8").split()) if path.exists() else set()
    path.write_text("".join(f"{name}\n" for name in sorted(slow | (before - set(times)))), encoding="utf-8")
    rest = sum(sum(each) for name, each in times.items() if name not in slow)
    print(f"make {tier} leaves out {len(slow)} of {len(times)} tests; the others take {rest:.0f} s together")
    return 0


def left_out(tier: str, times: Times) -> set[str]:
    """Return the tests that take longer than the tier's limits; ``times`` has the seconds of each one's cases."""
    slow = {name for name, each in times.items() if _is_slow(LIMITS[tier], name, each)}
    return slow - _quickest(times) if tier in KEEPS_ONE else slow


def _is_slow(limits: Mapping[str, Limit], name: str, each: Sequence[float]) -> bool:
    limit = next((limit for folder, limit in limits.items() if name.startswith(f"{folder}/")), None)
    return limit is not None and (statistics.fmean(each) > limit.each or sum(each) > limit.whole)


def _quickest(times: Times) -> set[str]:
    """Return the test of each file whose cases take least."""
    first: dict[str, str] = {}
    for name in sorted(times, key=lambda name: sum(times[name])):
        first.setdefault(name.partition("::")[0], name)
    return set(first.values())


def _cases(path: Path) -> Iterator[tuple[str, float]]:
    """Yield the test function of each case, as ``FILE::CLASS::NAME``, with its seconds."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):  # noqa: S314 - what our own tests wrote
        parts = case.get("classname", "").split(".")
        count = next(
            (n for n in range(len(parts), 0, -1) if (TOP / "/".join(parts[:n])).with_suffix(".py").is_file()), 0
        )
        if count:
            file = "/".join(parts[:count]) + ".py"
            function = case.get("name", "").partition("[")[0].partition("@")[0]  # of a group of xdist
            yield "::".join([file, *parts[count:], function]), float(case.get("time", "0"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
