"""Compare the search of 'modak tune' with random search and plain Optuna: tuner_search.py [--runs N] [--json FILE].

The objective is replayed from measured tables of lever sets (those that ship, or --tables with what measure.py made
of tuner.yaml, every combination of two networks), with noise on each trial, so that nothing is timed here. A trial is
one run of the program. Counted are the trials until one is within 5% of the fastest set, the default being known
beforehand; the search of modak proposes rounds of six as it does on a target, once without advice and once advised by
the gains of other networks in the same file, as a Plan's candidates are. Sets that were not measured cost nobody a
trial. Random search repeats nothing; Optuna's default sampler may propose what it has tried, which costs a trial as it
would on a target.
"""

import argparse
import json
import math
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import optuna

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.intervals import lengths
from modak_deploy.performance.records import SHIPPED, read_records
from modak_deploy.tuning.space import NONE, Point
from modak_deploy.tuning.study import Study

TABLES = [path for path in sorted(SHIPPED.glob("*.jsonl")) if not path.name.startswith("published")]
BATCH = 6
NEAR = 1.05
MOST_ASKED = 20
"""Proposals of Optuna's for each set of a table, those included that are not possible."""
FEWEST = 10
"""Sets of a table: in fewer there is nothing to search."""
Times = Mapping[tuple[str, ...], float]
Strategy = Callable[["Recorded", Callable[[Point], float], random.Random], Iterator[Point]]


@dataclass(frozen=True)
class Recorded:
    """A space whose every point was measured; it takes the place of the space around a Plan's candidate."""

    groups: Mapping[str, Sequence[str]]
    start: Point
    times: Times
    seeds: Sequence[Point] = ()

    @property
    def size(self) -> int:
        """How many combinations there are, those included that were not possible."""
        return math.prod(len(choices) for choices in self.groups.values())

    def seconds(self, point: Point) -> float | None:
        """Return what a point took; None where it is not possible."""
        return self.times.get(tuple(sorted(lever for lever in point.values() if lever != NONE)))

    def point(self, levers: Sequence[str]) -> Point:
        """Return a set of levers as a point."""
        without = {group: NONE if NONE in choices else choices[0] for group, choices in self.groups.items()}
        on = {group: lever for group, choices in self.groups.items() for lever in levers if lever in choices}
        return {**without, **on}

    def fault(self, point: Point) -> str | None:
        """Return why a point cannot be used; None when it can."""
        return "the levers exclude each other" if self.seconds(point) is None else None


def space_of(times: Times, catalogue: Catalogue, draw: random.Random) -> Recorded:
    """Return the space of a table, its groups and choices in random order but for the default's, which come first."""
    default = min(times, key=len)
    groups: dict[str, list[str]] = {}
    for levers in times:
        for lever in levers:
            choices = groups.setdefault(catalogue.levers[lever].group, [])
            if lever not in choices:
                choices.append(lever)
    start = {group: next((lever for lever in default if lever in choices), NONE) for group, choices in groups.items()}
    order = draw.sample(sorted(groups), len(groups))
    shuffled = {}
    for group in order:
        others = [lever for lever in groups[group] if lever != start[group]]
        # Where the default names a lever of the group, as Keras's backend, there is always one.
        shuffled[group] = [start[group], *draw.sample(others, len(others))]
    return Recorded(shuffled, start, times)


def modak(space: Recorded, measure: Callable[[Point], float], draw: random.Random) -> Iterator[Point]:
    """Yield what 'modak tune' would try, in rounds."""
    with tempfile.TemporaryDirectory(prefix="modak-") as folder:
        study = Study(Path(folder) / "study.journal", str(draw.random()), space)
        while points := study.propose(BATCH):
            for point in points:
                yield point
                study.tell(point, measure(point) / space.times[min(space.times, key=len)])


def plain_optuna(space: Recorded, measure: Callable[[Point], float], draw: random.Random) -> Iterator[Point]:
    """Yield what Optuna's default sampler proposes, until it only proposes what is not possible.

    It learns nothing from proposals that fail, and may make the same one for ever.
    """
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=draw.randrange(2**31)))
    kinds: dict[str, optuna.distributions.BaseDistribution] = {
        group: optuna.distributions.CategoricalDistribution(tuple(choices)) for group, choices in space.groups.items()
    }
    for _ in range(MOST_ASKED * len(space.times)):
        trial = study.ask(kinds)
        if space.fault(trial.params) is not None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        yield trial.params
        study.tell(trial, measure(trial.params))


def at_random(space: Recorded, measure: Callable[[Point], float], draw: random.Random) -> Iterator[Point]:
    """Yield all points in random order."""
    points: list[dict[str, str]] = [{}]
    for group, choices in space.groups.items():
        points = [{**point, group: choice} for point in points for choice in choices]
    possible = [point for point in points if space.fault(point) is None and point != space.start]
    yield from draw.sample(possible, len(possible))


ADVISED = "modak tune, advised"
STRATEGIES: Mapping[str, Strategy] = {
    ADVISED: modak,
    "modak tune": modak,
    "Optuna": plain_optuna,
    "random": at_random,
}


def trials_until_near(space: Recorded, strategy: Strategy, draw: random.Random, noise: float) -> int:
    """Return how many trials it takes until one is near the fastest combination, at most three times as many as are."""
    aim = NEAR * min(space.times.values())

    def measure(point: Point) -> float:
        return (space.seconds(point) or math.inf) * math.exp(draw.gauss(0, noise))

    most = 3 * len(space.times)
    for number, point in enumerate(strategy(space, measure, draw), start=1):
        if (space.seconds(point) or math.inf) <= aim or number >= most:
            return number
    return most


@dataclass(frozen=True)
class Table:
    """What was measured of a workload on one machine: times of several machines are no times of one program."""

    workload: str
    units: int
    source: str
    """The name of its file."""
    times: Times = field(hash=False)

    @property
    def default(self) -> tuple[str, ...]:
        """The set that all others are compared with."""
        return min(self.times, key=len)

    @property
    def network(self) -> str:
        """The workload without its batch."""
        return re.sub(r"-b\d+$", "", self.workload)


def tables(paths: Sequence[Path], catalogue: Catalogue) -> Iterator[Table]:
    """Yield the tables of long jobs, but where the default is near the fastest and there is nothing to search."""
    for path in paths:
        found: dict[tuple[str, str, int], dict[tuple[str, ...], float]] = {}
        for row in rows_of(read_records(path), catalogue):
            levers = tuple(sorted(row.case.configuration.levers))
            units = lengths(row)[-1]
            found.setdefault((row.workload, row.setting, units), {})[levers] = row.at(units)
        for (workload, _, units), times in sorted(found.items()):
            if len(times) >= FEWEST and times[min(times, key=len)] > NEAR * min(times.values()):
                yield Table(workload, units, path.stem, times)


def advice(table: Table, others: Sequence[Table]) -> list[tuple[str, ...]]:
    """Return the sets that other networks gained by, those first that brought most (geometric means)."""
    gains: dict[tuple[str, ...], list[float]] = {}
    for other in others:
        if other.network != table.network:
            for levers, seconds in other.times.items():
                gains.setdefault(levers, []).append(math.log(other.times[other.default] / seconds))
    means = {levers: statistics.fmean(gains[levers]) for levers in table.times if levers in gains}
    better = [levers for levers, gain in means.items() if gain > 0]
    return sorted(better, key=lambda levers: -means[levers])


def trials(
    table: Table, name: str, others: Sequence[Table], runs: int, noise: float, catalogue: Catalogue
) -> list[int]:
    """Return the trials that each of some searches takes."""
    advised = advice(table, others) if name == ADVISED else ()
    counts = []
    for number in range(runs):
        draw = random.Random(f"{name} {number}")  # noqa: S311 - a simulation
        space = space_of(table.times, catalogue, draw)
        space = replace(space, seeds=[space.point(levers) for levers in advised])
        counts.append(trials_until_near(space, STRATEGIES[name], draw, noise))
    return counts


def summary(found: Mapping[Table, Mapping[str, Sequence[int]]]) -> list[tuple[str, ...]]:
    """Return a line for each file and one for all: the geometric mean of its tables' mean trials, and the most."""
    lines: list[tuple[str, ...]] = [("measurements", "tables", "sets", "near the best", *STRATEGIES)]
    sources = list(dict.fromkeys(table.source for table in found))
    for name, some in [*((source, {source}) for source in sources), ("all", set(sources))]:
        own = [table for table in found if table.source in some]
        sets = statistics.fmean(len(table.times) for table in own)
        near = statistics.fmean(
            sum(value <= NEAR * min(table.times.values()) for value in table.times.values()) for table in own
        )
        cells = []
        for strategy in STRATEGIES:
            means = [statistics.fmean(found[table][strategy]) for table in own]
            cells.append(
                f"{statistics.geometric_mean(means):.1f} ({max(max(found[table][strategy]) for table in own)})"
            )
        lines.append((name, str(len(own)), f"{sets:.0f}", f"{near:.1f}", *cells))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, nargs="+", default=TABLES, metavar="FILE")
    parser.add_argument("--runs", type=int, default=20, help="searches of each kind on each table")
    parser.add_argument("--noise", type=float, default=0.03, help="standard deviation of a trial's logarithm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the trials of each table and search as JSON")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    catalogue = load_catalogue()
    every = list(tables(options.tables, catalogue))
    found: dict[Table, dict[str, list[int]]] = {}
    for number, table in enumerate(every, start=1):
        print(f"[{number}/{len(every)}] {table.workload}, {table.source}", file=sys.stderr, flush=True)
        others = [other for other in every if other.source == table.source]
        found[table] = {
            name: trials(table, name, others, options.runs, options.noise, catalogue) for name in STRATEGIES
        }
    head, *rest = [f"| {' | '.join(cells)} |" for cells in summary(found)]
    print("\n".join([head, "|" + "---|" * (head.count("|") - 1), *rest]))
    if options.json:
        single = [
            {"workload": table.workload, "units": table.units, "measurements": table.source, "trials": counts}
            for table, counts in found.items()
        ]
        options.json.write_text(json.dumps({"tuner": single}, indent=1) + "\n")


if __name__ == "__main__":
    main()
