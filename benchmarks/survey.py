"""Measure all sets of live levers of the unchanged programs in turns, and judge by them what modak chose.

    python benchmarks/survey.py --only squeezenet-b1                       # two minutes
    python benchmarks/survey.py --chosen programs.jsonl --out survey.jsonl # half an hour, all programs
    python benchmarks/survey.py --table survey.jsonl

Each program runs once, natively, under the launcher's survey: all sets do their units next to the default's, in random
order, round after round, so that a machine whose speed changes changes all of them. ``--chosen`` is a file of results
of ``programs.py``: what the deployments in it ended with is measured in any case, and the table tells how much slower
that is than the fastest set. Every set is a line of ``--out``; the same command goes on with the other programs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import survey_table
from program_rows import ROWS, Row
from program_runs import Workplace, launched
from program_table import LIVE, ended_with

from modak_deploy.launch import record

ENDLESS = 1_000_000
"""Units of a program, which is interrupted once the survey is over."""
PATIENCE = 30.0
"""Seconds in which an interrupted program ends."""
SILENT = 60.0
"""Seconds after which a program that has no lever to survey is ended."""
FOLDERS = ("pytorch-", "keras-", "tensorflow-", "onnxruntime-")
"""The programs that have live levers, by the beginnings of their folders."""


def chosen_in(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the live levers that deployments with modak ended with, by program and arm."""
    return {
        (entry["row"], entry["arm"]): tuple(lever for lever in ended_with(entry) if lever in LIVE)
        for entry in entries
        if entry["state"] == "completed" and entry["arm"].startswith(("live-", "second-"))
    }


def survey(row: Row, place: Workplace, numerics: str, sets: Sequence[Sequence[str]], limit: float) -> list[Any]:
    """Return what the launcher recorded of a program's survey, which ends after ``limit`` seconds at the latest."""
    document = row.document(ENDLESS)
    script, arguments = document["application"]["script"], document["application"]["arguments"]
    with tempfile.TemporaryDirectory(prefix="modak-survey-") as name:
        folder = Path(name)
        own = launched(folder, {"mode": "survey", "numerics": numerics, "sets": [list(levers) for levers in sets]})
        environment = {**os.environ, **document["job"].get("environment", {}), **own}
        command = [sys.executable, script, *map(str, arguments)]
        with (folder / "output").open("w", encoding="utf-8") as output, subprocess.Popen(
            command, cwd=place.program(row), env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process:  # fmt: skip
            _wait(process, folder / "record", limit)
        return list(record.events(str(folder / "record")))


def _wait(process: "subprocess.Popen[bytes]", folder: Path, limit: float) -> None:
    """Interrupt a program once its survey is over, or does not begin; what it has at the limit it tells as well."""
    began = time.monotonic()
    while process.poll() is None and (passed := time.monotonic() - began) < limit:
        time.sleep(1.0)
        text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.jsonl"))
        if '"event": "settled"' in text or (passed > SILENT and '"event": "trying"' not in text):
            break
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> int:
    """Measure what is not in the file yet, and print the table."""
    rows = [row for row in ROWS if row.folder.startswith(FOLDERS)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in rows], metavar="NAME",
                        help="a program; may be repeated")  # fmt: skip
    parser.add_argument("--numerics", choices=("exact", "relaxed"), default="exact")
    parser.add_argument("--chosen", type=Path, metavar="FILE", help="results of programs.py, to be judged")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one program")
    parser.add_argument("--out", type=Path, default=Path("survey.jsonl"), help="results, one set a line")
    parser.add_argument("--table", type=Path, metavar="FILE", help="measure nothing: print the table of such results")
    options = parser.parse_args()
    if options.table:
        print(survey_table.table(survey_table.read(options.table)), end="")
        return 0
    entries = survey_table.read(options.chosen) if options.chosen else []
    chosen = {key: levers for key, levers in chosen_in(entries).items() if key[1].endswith(options.numerics)}
    kept = survey_table.read(options.out) if options.out.exists() else []
    done = {entry["row"] for entry in kept if entry["numerics"] == options.numerics}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program would ignore it, too, where a shell's job does
    place = Workplace(options.out.with_suffix(".work").absolute())
    place.folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if row.name in done or (options.only and row.name not in options.only):
            continue
        print(f"{row.name} ...", end=" ", file=sys.stderr, flush=True)
        began = time.monotonic()
        own = {arm: levers for (name, arm), levers in chosen.items() if name == row.name}
        events = survey(row, place, options.numerics, sorted(set(own.values())), options.limit)
        lines = survey_table.lines_of(row, options.numerics, events, own)
        with options.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        print(f"{len(lines)} sets in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        kept += lines
    if kept:
        print(survey_table.table(kept), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
