"""Measure what the launcher adds to a whole process: launch_start.py [--rounds N] [--only NAME].

Each program does a few units by itself, counted, and with live trials of what is exact (in jobs that are too short for
most of them), in turns and in random order. What is added is the median over the rounds of the difference to the
program by itself: processor time, which a neighbour's load changes little, and wall time.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from markdown_table import markdown
from program_rows import ROWS, Row
from program_runs import Workplace, launched

WAYS = {"by itself": None, "counted": {"mode": "none"}, "with trials": {"mode": "live", "numerics": "exact"}}


def once(row: Row, place: Workplace, trials: dict[str, Any] | None) -> tuple[float, float]:
    """Return the seconds of processor time and of wall time that a process takes."""
    document = row.document(row.few)
    command = [sys.executable, document["application"]["script"], *map(str, document["application"]["arguments"])]
    with tempfile.TemporaryDirectory(prefix="modak-start-") as name:
        environment = {**os.environ, **document["job"].get("environment", {})}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if trials is not None:
            environment |= launched(Path(name), {**trials, "units": row.few})
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=place.program(row), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{row.name}: the program ended with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, wall


def measured(row: Row, place: Workplace, rounds: int) -> list[str]:
    """Return the program's line of the table."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    once(row, place, None)  # reads the framework's files
    for _ in range(rounds):
        for way in random.sample(list(WAYS), len(WAYS)):
            found[way].append(once(row, place, WAYS[way]))
    alone = found.pop("by itself")
    cells = [row.name, *(f"{statistics.median(one[part] for one in alone):.2f}" for part in (0, 1))]
    for times in found.values():
        for part in (0, 1):
            added = statistics.median(one[part] - base[part] for one, base in zip(times, alone, strict=True))
            cells.append(f"{added:+.2f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], metavar="NAME")
    options = parser.parse_args()
    head = [
        "program",
        "processor time, s",
        "wall time, s",
        "counted: processor",
        "wall",
        "with trials: processor",
        "wall",
    ]
    lines = [head]
    with tempfile.TemporaryDirectory(prefix="modak-start-") as name:
        for row in (row for row in ROWS if row.name in (options.only or [row.name for row in ROWS])):
            print(f"{row.name} ...", file=sys.stderr, flush=True)
            lines.append(measured(row, Workplace(Path(name)), options.rounds))
    print(markdown(lines))


if __name__ == "__main__":
    main()
