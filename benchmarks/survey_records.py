"""Make measurements of the unchanged programs by surveys: survey_records.py [--only NAME] > records.jsonl.

Each program is deployed once with ``request.trials: survey``: all sets of live levers do their units in turns within
one job, so that a machine whose speed changes changes all of them. What its job leaves to learn from is printed, under
the name by which the shipped measurements know the program.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from program_records import LATER, results_of
from program_rows import MORE, ROWS, Row
from program_runs import Workplace, deploy
from survey import FOLDERS

from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.measurement import Measurement, Run
from modak_deploy.performance.recording import records_of
from modak_deploy.performance.records import to_line

CALIBRATION = 120.0
"""Seconds that the short job may take which tells how many units the other one has."""
ENOUGH = 300
"""Units in which a survey comes to its end."""
LONGEST = 3.0
"""Times as long as asked for a job may be, for that many units."""
METHOD = "benchmarks/survey_records.py: units of one job in which all sets of levers took turns."
DIGITS = 4


def records(row: Row, place: Workplace, numerics: str, seconds: float) -> Iterator[Measurement]:
    """Yield the measurements of a program whose job takes so many seconds with the default, or has enough units."""
    short = deploy(place, row, row.few, {"trials": "none"}, run=f"{row.name}/short", store="none", record=False,
                   limit=CALIBRATION, short=True)  # fmt: skip
    if short["state"] != "completed" or not short.get("steady"):
        print(f"{row.name}: left out: {short.get('reason') or short['state']}", file=sys.stderr)
        return
    units = row.units(min(max(seconds, ENOUGH * short["steady"]), LONGEST * seconds), short["steady"])
    asked = {"trials": "survey", "numerics": numerics}
    limit = 4 * LONGEST * seconds
    done = deploy(place, row, units, asked, run=f"{row.name}/survey", store="none", record=False, limit=limit,
                  short=True)  # fmt: skip
    folder = results_of(place.folder / "runs" / row.name / "survey")
    if done["state"] != "completed" or folder is None:
        print(f"{row.name}: left out: {done.get('reason') or done['state']}", file=sys.stderr)
        return
    print(f"{row.name}: {len(done['tried'])} sets in {done['total']:.0f} s, {units} units", file=sys.stderr)
    for record in records_of(folder, load_catalogue()):
        workload = record.workload.model_copy(update={"model": f"program-{row.name}", "units": 1 + LATER})
        provenance = record.provenance.model_copy(update={"method": METHOD, "source": f"survey of {row.name}"})
        update = {"workload": workload, "provenance": provenance, "runs": [_short(run) for run in record.runs]}
        yield record.model_copy(update=update)


def _short(run: Run) -> Run:
    """Return a run with few digits."""
    first, later = _rounded(run.first or 0.0), [_rounded(seconds) for seconds in run.later]
    total = round((run.start or 0.0) + first + sum(later) + 10.0**-DIGITS, DIGITS)
    return run.model_copy(update={"first": first, "later": later, "total": total})


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")


def main() -> None:
    """Measure the programs and print their measurements."""
    rows = [row for row in (*ROWS, *MORE) if row.folder.startswith(FOLDERS)]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[row.name for row in rows], metavar="NAME",
                        help="a program; may be repeated")  # fmt: skip
    parser.add_argument("--numerics", choices=("exact", "relaxed"), default="relaxed")
    parser.add_argument(
        "--seconds", type=float, default=100, help="what a program's job takes with the default, at least"
    )
    parser.add_argument("--work", type=Path, default=Path("survey.work"), help="folder for the jobs and their results")
    options = parser.parse_args()
    place = Workplace(options.work.absolute())
    place.folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if options.only and row.name not in options.only:
            continue
        for record in records(row, place, options.numerics, options.seconds):
            print(to_line(record).strip(), flush=True)


if __name__ == "__main__":
    main()
