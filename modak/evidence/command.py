"""What ``modak report`` does."""

import sys
from pathlib import Path

from modak.errors import InputError
from modak.evidence.report import (
    Report,
    job_folders,
    read_job,
    report_of_jobs,
    report_of_measurements,
    write_report,
)
from modak.performance.places import store_in_use


def write(folder: Path | None, *, output: Path, store: str | None, workload: str | None, shipped: bool) -> None:
    """Write the report on a results folder, on a store or on what modak ships, and say where it is."""
    if folder is not None and (store is not None or workload is not None or shipped):
        raise InputError("RESULTS cannot be combined with --store, --workload or --shipped")
    if shipped and store is not None:
        raise InputError("--shipped cannot be combined with --store")
    report = (
        _of_results(folder)
        if folder
        else report_of_measurements(store or store_in_use(), workload=workload, shipped=shipped)
    )
    table = write_report(report, output)
    sys.stdout.write(f"{report.title}: {report.summary}\nwritten: {output} and {table}\n")


def _of_results(folder: Path) -> Report:
    folders = job_folders(folder)
    if not folders:
        raise InputError(f"{folder}: no plan.json at or below it; name a folder that results were fetched to")
    return report_of_jobs([read_job(path) for path in folders])
