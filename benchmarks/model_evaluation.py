"""What the time model is worth for work it never saw: model_evaluation.py [--json|--more FILE] [PART...].

The split is fixed before anything is fitted: each workload of the shipped measurements is left out of everything once.

table        errors, coverage and regret of each workload and length, as 'modak model evaluate'
rules        regret of modak's decisions beside rules that users follow in its place
first-plans  the first Plan for a workload with a store that is empty, and with ten recorded jobs of other workloads
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from markdown_table import markdown

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.optimiser.evaluating import evaluate, judge
from modak_deploy.performance.estimators import Row
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.intervals import lengths
from modak_deploy.performance.modelling import held_table, mean_of
from modak_deploy.performance.records import load_measurements
from modak_deploy.performance.timemodel import Held

Lines = list[tuple[str, ...]]
Known = Sequence[Measurement | Ratio]
OWN = "keras-"
"""The workloads that were measured on one machine, and so can be the jobs of somebody's store."""
RULES: Mapping[str, tuple[str, ...]] = {
    "the default (Keras on TensorFlow)": ("keras-tensorflow",),
    "always XLA (TF_XLA_FLAGS)": ("keras-tensorflow", "tf-xla-auto"),
    "always JAX": ("keras-jax",),
}
"""Levers by what a user would do who follows a rule of thumb."""


def percent(value: float | None) -> str:
    """Return a share for people."""
    return "-" if value is None else f"{value:.0%}"


def settings(rows: Sequence[Row]) -> Iterator[tuple[str, int, Mapping[tuple[str, ...], float]]]:
    """Yield each workload at each length with the seconds of its configurations, by their levers."""
    groups: dict[tuple[str, str, int], dict[tuple[str, ...], float]] = {}
    for row in rows:
        for units in lengths(row):
            groups.setdefault((row.workload, row.setting, units), {})[tuple(row.case.configuration.levers)] = row.at(
                units
            )
    for (workload, _, units), seconds in sorted(groups.items()):
        yield workload, units, seconds


def rules(known: Known, catalogue: Catalogue, held: Sequence[Held]) -> Lines:
    """Return the regret of each rule over the settings in which all of them were measured, and that of modak there."""
    every = [found for found in settings(rows_of(known, catalogue)) if all(rule in found[2] for rule in RULES.values())]
    where = {(workload, units) for workload, units, _ in every}
    there = [item for item in held if (item.workload, item.units) in where]
    lines: Lines = [("rule", "mean regret", "worst", "settings")]
    ways: dict[str, list[float]] = {
        "modak's decision, workload unknown": [item.regret for item in there if item.regret is not None],
        "the model's word, workload unknown": [item.regret_model for item in there if item.regret_model is not None],
    }
    for name, levers in RULES.items():
        ways[name] = [seconds[levers] / min(seconds.values()) - 1 for _, _, seconds in every]
    for name, values in ways.items():
        lines.append((name, percent(statistics.fmean(values)), percent(max(values)), str(len(values))))
    return lines


JOBS: Mapping[str, Callable[[Measurement | Ratio], bool]] = {
    "empty store": lambda record: False,
    "ten jobs of other workloads, the default alone": lambda record: (
        isinstance(record, Measurement) and tuple(record.configuration.levers) == next(iter(RULES.values()))
    ),
    "ten jobs of other workloads, with trials": lambda record: True,
}
"""Which records of jobs a store has."""


def is_own(record: Measurement | Ratio) -> bool:
    """Tell whether a record can be a job of somebody's store."""
    return str(record.workload.model).startswith(OWN)


_more: list[Path] = []
"""Of a process that judges Plans: files of records to add to those that ship."""


def begin(more: Sequence[Path]) -> None:
    """Note what all Plans of a process know."""
    _more.extend(more)


def first_plan(case: tuple[str, str]) -> list[Held]:
    """Return what first Plans for a workload are worth, whose store has those records of other workloads' jobs."""
    jobs, workload = case
    records, catalogue = load_measurements(_more).all_records(), load_catalogue()
    rows = [row for row in rows_of(filter(is_own, records), catalogue) if row.workload == workload]
    store = [
        record for record in records if not is_own(record) or (record.workload.model != workload and JOBS[jobs](record))
    ]
    return judge(workload, rows, store, catalogue)


def first_plans(more: Sequence[Path], records: Known, catalogue: Catalogue) -> Lines:
    """Return what the first Plans for eleven workloads are worth, by what the store held before each."""
    workloads = sorted({row.workload for row in rows_of(filter(is_own, records), catalogue)})
    cases = [(jobs, workload) for jobs in JOBS for workload in workloads]
    found: dict[str, list[Held]] = {}
    with ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), mp_context=get_context("spawn"), initializer=begin, initargs=(more,)
    ) as pool:
        for (jobs, _), held in zip(cases, pool.map(first_plan, cases), strict=True):
            found.setdefault(jobs, []).extend(held)
    head = ("store", "predicted", "MAPE", "times in their interval", "gains in theirs", "regret", "of the default")
    lines: Lines = [(*head, "of the model's word")]
    for name, each in found.items():
        mean = mean_of(each)
        shares = (mean.error, mean.coverage, mean.coverage_gain, mean.regret, mean.regret_default, mean.regret_model)
        lines.append((name, f"{mean.predicted} of {mean.records}", *map(percent, shares)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="table, rules or first-plans; all when absent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same as JSON")
    parser.add_argument("--more", type=Path, action="append", default=[], metavar="FILE",
                        help="records to add to those that ship; may be repeated")  # fmt: skip
    options = parser.parse_args()
    measurements, catalogue = load_measurements(options.more), load_catalogue()
    wanted = options.parts or ["table", "rules", "first-plans"]
    tables: dict[str, Lines] = {}
    if {"table", "rules"} & set(wanted):
        held = evaluate(measurements, catalogue)
        tables["table"] = held_table(held)
        tables["rules"] = rules(measurements.all_records(), catalogue, held)
    if "first-plans" in wanted:
        tables["first-plans"] = first_plans(options.more, measurements.all_records(), catalogue)
    for name in wanted:
        print(markdown(tables[name]))
    if options.json:
        options.json.write_text(json.dumps({name: tables[name] for name in wanted}, indent=1) + "\n")


if __name__ == "__main__":
    main()
