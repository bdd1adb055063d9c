"""Compare the search of 'modak tune' with random search and plain Optuna: tuner_search.py [--runs N] [--json FILE].

The objective is replayed from measured tables of lever sets (those that ship, or --tables with what measure.py made
of tuner.yaml, every combination of two networks), with noise on each trial, so that nothing is timed here. A trial is
one run of the program. Counted are the trials until one is within 5% of the fastest set, the default being known
beforehand; the search of modak gets no advice from measurements or a model, and proposes rounds of six as it does on a
target. Sets that were not measured cost nobody a trial. Random search repeats nothing; Optuna's default sampler may
propose what it has tried, which costs a trial as it would on a target.
"""

import argparse
import json
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.records import SHIPPED, read_records
from modak_deploy.tuning.space import NONE, Point
from modak_deploy.tuning.study import Study

TABLES = [path for path in sorted(SHIPPED.glob("*.jsonl")) if not path.name.startswith("published")]
UNITS = (4, 100)
"""Lengths of the job, in epochs: compilation pays off in a long one alone."""
BATCH = 6
NEAR = 1.05
MOST_ASKED = 50
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


STRATEGIES: Mapping[str, Strategy] = {"modak tune": modak, "Optuna": plain_optuna, "random": at_random}


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


def tables(paths: Sequence[Path], catalogue: Catalogue) -> Iterator[tuple[str, Times]]:
    """Yield each table at each length, but where the default is near the fastest and there is nothing to search."""
    found: dict[tuple[str, int], dict[tuple[str, ...], float]] = {}
    for row in rows_of([record for path in paths for record in read_records(path)], catalogue):
        for units in UNITS:
            found.setdefault((row.workload, units), {})[tuple(sorted(row.case.configuration.levers))] = row.at(units)
    for (workload, units), times in sorted(found.items()):
        if len(times) >= FEWEST and times[min(times, key=len)] > NEAR * min(times.values()):
            yield f"{workload}, {units} epochs", times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, nargs="+", default=TABLES, metavar="FILE")
    parser.add_argument("--runs", type=int, default=40, help="searches of each kind on each table")
    parser.add_argument("--noise", type=float, default=0.03, help="standard deviation of a trial's logarithm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same as JSON")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    catalogue = load_catalogue()
    rows: list[tuple[str, ...]] = [
        (
            "table",
            "combinations",
            "near the best",
            "best over default",
            *(f"{name}: median (90%)" for name in STRATEGIES),
        )
    ]
    for name, times in tables(options.tables, catalogue):
        best = min(times.values())
        cells = []
        for label, strategy in STRATEGIES.items():
            draws = [random.Random(f"{label} {seed}") for seed in range(options.runs)]  # noqa: S311 - a simulation
            counts = sorted(
                trials_until_near(space_of(times, catalogue, draw), strategy, draw, options.noise) for draw in draws
            )
            cells.append(f"{statistics.median(counts):.0f} ({counts[math.ceil(0.9 * len(counts)) - 1]})")
        near = sum(value <= NEAR * best for value in times.values())
        rows.append((name, str(len(times)), str(near), f"{times[min(times, key=len)] / best:.2f}", *cells))
    head, *rest = [f"| {' | '.join(cells)} |" for cells in rows]
    print("\n".join([head, "|" + "---|" * len(rows[0]), *rest]))
    if options.json:
        options.json.write_text(json.dumps({"tuner": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
