"""Make measurements of the short jobs of programs.py: program_records.py RESULTS.jsonl > records.jsonl.

Beside the results lies the folder with what their jobs returned. Each candidate of the search becomes a record with one
run for each time that it was measured, and what its work consists of as the launcher saw it in the program's first
deployment with trials. The programs' metrics tell the seconds of all units and of a steady one: LATER steady
units are written down, and the run's total is that of so many.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Mix
from modak_deploy.performance.recording import JOB, PLAN, records_of
from modak_deploy.performance.records import to_line

LATER = 8
"""Units after the first one that each record has; a search has as many of each program at least."""
DIGITS = 6
METHOD = "benchmarks/programs.py: short jobs of one program with one candidate each; the steady unit is its own median."
FEATURES = ("samples", "parameters", "flops_per_sample", "bytes_per_sample", "layers")


def results_of(folder: Path) -> Path | None:
    """Return the folder of a run's results; None where its job returned none."""
    found = sorted(folder.glob(f"results/*/{JOB}"))
    return found[0].parent if found else None


def features(row: Path) -> tuple[dict[str, Any], Mix | None]:
    """Return what the launcher saw of a program's work in a first deployment: sizes, and shares of operations."""
    catalogue = load_catalogue()
    for run in sorted(row.glob("live-*")):
        folder = results_of(run)
        for record in records_of(folder, catalogue) if folder is not None else []:
            if record.workload.parameters is not None:
                return {name: getattr(record.workload, name) for name in FEATURES}, record.mix
    return {}, None


def short_job(folder: Path, work: Path) -> Measurement | None:
    """Return the measurement of a short job; None for one that failed or has no metrics."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    units = json.loads((folder / PLAN).read_text(encoding="utf-8"))["application"]["workload"]["units"]
    metrics = job.get("metrics") or {}
    if job["state"] != "completed" or not metrics.get("steady") or units <= LATER:
        return None
    steady = metrics["steady"]
    job["seconds"] -= (units - 1 - LATER) * steady
    first = min(max(steady, metrics["seconds"] - (units - 1) * steady), job["seconds"] - LATER * steady - 1e-6)
    if first <= 0:
        return None
    steady, first, job["seconds"] = (float(f"{seconds:.{DIGITS}g}") for seconds in (steady, first, job["seconds"]))
    job["metrics"] = {"first_epoch_seconds": first, "later_epoch_seconds": [steady] * LATER}
    (work / JOB).write_text(json.dumps(job), encoding="utf-8")
    shutil.copy(folder / PLAN, work / PLAN)
    try:
        return records_of(work, load_catalogue())[0]
    except InputError as error:
        print(f"{folder.parent.parent.name}: left out: {error}", file=sys.stderr)
        return None


def records(runs: Path) -> Iterator[Measurement]:
    """Yield the records of all programs whose runs lie in a folder."""
    for row in sorted(path for path in runs.iterdir() if path.is_dir()):
        (known, mix), measured = features(row), dict[tuple[str, ...], Measurement]()
        with tempfile.TemporaryDirectory(prefix="modak-") as work:
            for run in sorted(row.glob("best-*")):
                folder = results_of(run)
                one = short_job(folder, Path(work)) if folder is not None else None
                if one is None:
                    continue
                levers = tuple(sorted(one.configuration.levers))
                before = measured[levers].runs if levers in measured else []
                measured[levers] = one.model_copy(update={"runs": [*before, *one.runs]})
        for one in measured.values():
            workload = one.workload.model_copy(update={**known, "model": f"program-{row.name}", "units": 1 + LATER})
            provenance = one.provenance.model_copy(update={"method": METHOD, "source": f"candidates of {row.name}"})
            yield one.model_copy(update={"workload": workload, "mix": mix, "provenance": provenance})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, help="what programs.py wrote with --out")
    options = parser.parse_args()
    for record in records(options.results.with_suffix(".work") / "runs"):
        print(to_line(record).strip())


if __name__ == "__main__":
    main()
