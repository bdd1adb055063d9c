"""Measure what the cache of earlier deployments saves: second deployments with it and without it, in turns.

    python benchmarks/cached_jobs.py --only squeezenet-b1 --only bert-b1 --minutes 0.5 --rounds 3 --out cached.jsonl

Each program is deployed once from an empty store, as users deploy it, so that its trials fill the cache of its
workspace and the store. Then come the rounds: the same job again by what the store knows, in the workspace with the
cache and in one without it. Nothing more is learned meanwhile. Each job is a line of ``--out``; the table goes to
standard output.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markdown_table import markdown
from program_rows import ROWS, Row
from program_runs import Workplace, deploy

WAYS = ("with", "without")


def measured(row: Row, place: Workplace, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the first deployment and, round after round, the second ones of both ways in random order."""
    seconds = 60 * options.minutes
    request = {"numerics": "relaxed" if options.relaxed else "exact"}

    def job(
        name: str, units: int, asked: dict[str, Any], *, record: bool = False, keeps: bool = True
    ) -> dict[str, Any]:
        print(f"{row.name} {name}: {units} units ...", end=" ", file=sys.stderr, flush=True)
        entry = deploy(place, row, units, asked, run=f"{row.name}/{name}", store=row.name, record=record,
                       limit=6 * seconds + 60, keeps=keeps)  # fmt: skip
        print(f"{entry['state']}, {entry.get('total') or 0:.1f} s", file=sys.stderr, flush=True)
        return {**entry, "row": row.name, "name": name, "with": keeps}

    short = job("calibration", row.few, {"trials": "none"}, keeps=False)
    if short["state"] != "completed" or not short["steady"]:
        raise SystemExit(f"{row.name}: {short.get('reason') or short['state']}")
    units = row.units(seconds, short["steady"])
    yield job("first", units, request, record=True)
    order = random.Random(0)  # noqa: S311  an order, and no secret
    for number in range(1, options.rounds + 1):
        for way in order.sample(WAYS, len(WAYS)):
            yield job(f"{way}-{number}", units, request, keeps=way == "with")


def table(entries: Sequence[dict[str, Any]]) -> str:
    """Return a line for each program: medians of both ways, and their ratio round by round."""
    lines = []
    for name in dict.fromkeys(entry["row"] for entry in entries):
        seconds = {
            way: {entry["name"].rpartition("-")[2]: entry["total"] for entry in entries
                  if entry["row"] == name and entry["name"].startswith(f"{way}-") and entry["state"] == "completed"}
            for way in WAYS
        }  # fmt: skip
        rounds = sorted(seconds["with"].keys() & seconds["without"].keys())
        if not rounds:
            continue
        ratios = [seconds["without"][one] / seconds["with"][one] for one in rounds]
        levers = next(entry["levers"] for entry in entries if entry["row"] == name and entry["name"] != "first")
        without, cached = (statistics.median(seconds[way].values()) for way in reversed(WAYS))
        factor = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(
            (name, " + ".join(levers) or "default", str(len(rounds)), f"{without:.1f}", f"{cached:.1f}", factor)
        )
    head = ("program", "started with", "rounds", "without the cache, s", "with it, s", "times as fast")
    return markdown([head, *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--only", action="append", required=True, choices=names, metavar="NAME", help="a program")
    parser.add_argument("--minutes", type=float, default=0.5, help="length of the job with the default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--relaxed", action="store_true", help="permit relaxed numerics too")
    parser.add_argument("--out", type=Path, default=Path("cached.jsonl"), help="results, one a line")
    options = parser.parse_args()
    if options.minutes <= 0 or options.rounds < 1:
        parser.error("--minutes must be above 0, and --rounds 1 at least")
    place = Workplace(options.out.with_suffix(".work").absolute())
    entries = []
    with options.out.open("w", encoding="utf-8") as file:
        for row in (row for row in ROWS if row.name in options.only):
            for entry in measured(row, place, options):
                entries.append(entry)
                file.write(json.dumps(entry) + "\n")
                file.flush()
    print(table(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
