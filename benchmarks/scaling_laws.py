"""Measure what the laws of scaling are worth on published series: scaling_laws.py [--floor] [--design | --series FILE].

Without options the series are those of scaling_held_out.yaml, which no law or rule was chosen with; with --design those
of scaling_series.yaml, which they were. Of each series every layout is left out in turn, and those beyond half of the
largest number of workers are predicted from those below; printed are the mean relative errors of modak's averaged
laws, and of Amdahl's law, the universal scalability law and a power law alone, and how often modak's 95% and 90%
intervals held what came. Series in the store and in the catalogue (measurements of one configuration at several
layouts) are taken as well.

With --floor it is printed instead how small the errors can be at all: what of each time is off a smooth curve, what
the law errs that was the best one as is known afterwards, and how near a mean of the laws could come with the best
weights for each layout, which nobody knows before.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from modak_deploy.performance.laws import LAWS, POWER, Point, fit, value
from modak_deploy.performance.records import available_measurements
from modak_deploy.performance.scaletable import series_of
from modak_deploy.performance.scaling import ScaleModel, fit_scale

DESIGN, HELD_OUT = (Path(__file__).parent / name for name in ("scaling_series.yaml", "scaling_held_out.yaml"))
LEVELS = (0.95, 0.9)
RIVALS = ("Amdahl", "USL", POWER)
KINDS = ("interpolated", "extrapolated")
Predict = Callable[[Point], float]
Split = tuple[list[Point], list[Point]]


def published(path: Path) -> Iterator[tuple[str, list[Point]]]:
    """Yield the series of a file."""
    for entry in yaml.safe_load(path.read_text()):
        node = entry.get("node")
        yield (
            entry["name"],
            [_point(node, *values) for values in entry["points"]],
        )


def _point(node: int | None, cores: int, seconds: float, nodes: int | None = None) -> Point:
    return Point(nodes or (math.ceil(cores / node) if node else 1), cores, 1, seconds)


def stored() -> Iterator[tuple[str, list[Point]]]:
    """Yield the series of the catalogue and the store."""
    measurements = available_measurements()
    for model in sorted({str(record.workload.model) for record in measurements.all_records()}):
        for number, series in enumerate(series_of(measurements.of_workload(model)), start=1):
            if len({(p.nodes, p.ranks, p.threads, p.size) for p in series.points}) > 4:
                yield f"{model} {number}", list(series.points)


def splits(points: Sequence[Point]) -> dict[str, list[Split]]:
    """Return training and test points: each layout left out, and what lies beyond half of the largest."""
    inner = sorted(points, key=lambda point: point.workers)[1:-1]
    most = max(point.workers for point in points)
    below = [point for point in points if point.workers <= most / 2]
    return {
        "interpolated": [([p for p in points if p is not left], [left]) for left in inner],
        "extrapolated": [(below, [p for p in points if p.workers > most / 2])],
    }


def rival(law: str, points: Sequence[Point]) -> Predict | None:
    """Return the prediction of one law alone."""
    coefficients = fit(law, points)
    return None if coefficients is None else (lambda point: value(law, coefficients, point))


def off_smooth(points: Sequence[Point]) -> float:
    """Return how far a time lies from a smooth curve on average: what no parabola, drawn in logs, tells of it.

    Of each four neighbours that part is what their third divided difference leaves, scaled so that it has the spread of
    a single time (Hall, Kay and Titterington, "Asymptotically optimal difference-based estimation of variance",
    Biometrika 77, 1990). A law that is the truth itself errs by as much.
    """
    times: dict[int, float] = {}
    for point in sorted(points, key=lambda point: (point.workers, point.nodes)):
        times.setdefault(point.workers, math.log(point.seconds))
    chain = [(math.log(workers), seconds) for workers, seconds in times.items()]
    parts = []
    for four in (chain[start : start + 4] for start in range(len(chain) - 3)):
        weights = [1 / math.prod(x - other for other, _ in four if other != x) for x, _ in four]
        parts.append(abs(sum(w * y for w, (_, y) in zip(weights, four, strict=True))) / math.hypot(*weights))
    return statistics.fmean(parts)


def in_hindsight(pairs: Sequence[Split]) -> tuple[float, float] | None:
    """Return the error of the law that errs least, and of a mean of laws with the best weights for each layout.

    Both are chosen with the times that are to be predicted. None where too few layouts are below.
    """
    single: dict[str, list[float]] = {}
    nearest: list[float] = []
    for training, test in pairs:
        ways = {law: predict for law in LAWS if (predict := rival(law, training)) is not None}
        if len(training) < 3 or not ways:
            return None
        for point in test:
            off = {law: predict(point) / point.seconds - 1 for law, predict in ways.items()}
            for law, error in off.items():
                single.setdefault(law, []).append(abs(error))
            between = min(off.values()) <= 0 <= max(off.values())
            nearest.append(0.0 if between else min(abs(error) for error in off.values()))
    best = min(statistics.fmean(errors) for errors in single.values() if len(errors) == len(nearest))
    return best, statistics.fmean(nearest)


@dataclass
class Told:
    """What was predicted of one series in one of the two ways."""

    errors: dict[str, list[float]]
    """Relative ones by modak and by its rivals."""
    held: dict[float, list[bool]]
    """For each level, whether modak's interval held what came."""
    laws: str
    """Those of modak's last model."""


def told(pairs: Sequence[Split]) -> Told:
    """Return what modak and its rivals predict of one series."""
    errors: dict[str, list[float]] = {law: [] for law in ("modak", *RIVALS)}
    held: dict[float, list[bool]] = {level: [] for level in LEVELS}
    model: ScaleModel | None = None
    for training, test in pairs:
        model = fit_scale(training)
        ways: dict[str, Predict | None] = {"modak": model.seconds if model else None}
        ways |= {law: rival(law, training) for law in RIVALS}
        for point in test:
            for law, predict in ways.items():
                if predict is not None:
                    errors[law].append(abs(predict(point) / point.seconds - 1))
            if model is not None:
                for level in LEVELS:
                    interval = model.interval(point, level=level)
                    held[level].append(interval.low <= point.seconds <= interval.high)
    return Told(errors, held, model.law if model else "none foretells it")


def show_errors(series: Sequence[tuple[str, list[Point]]]) -> None:
    """Print the table of errors and intervals."""
    ways = ("modak", *RIVALS)
    found: dict[str, list[Told]] = {kind: [] for kind in KINDS}
    print(f"{'series':<26}{'':<14}" + "".join(f"{name:>12}" for name in ways) + "   laws")
    for name, points in series:
        for kind, pairs in splits(points).items():
            one = told(pairs)
            if one.errors["modak"]:
                found[kind].append(one)
            cells = "".join(f"{statistics.fmean(v):>11.1%} " if v else f"{'-':>11} " for v in one.errors.values())
            print(f"{name:<26}{kind:<14}{cells}  {one.laws}")
    print()
    for kind, all_told in found.items():
        by_way = {way: [statistics.fmean(one.errors[way]) for one in all_told if one.errors[way]] for way in ways}
        means = "".join(f"{statistics.fmean(by_way[way]):>11.1%} " for way in ways)
        medians = "".join(f"{statistics.median(by_way[way]):>11.1%} " for way in ways)
        held = {level: [inside for one in all_told for inside in one.held[level]] for level in LEVELS}
        shares = ", ".join(f"{sum(held[level])} of {len(held[level])} in the {level:.0%} interval" for level in LEVELS)
        print(f"{f'mean of {len(all_told)} series':<26}{kind:<14}{means}  where modak tells of it")
        print(f"{'median':<26}{kind:<14}{medians}  {shares}")


def show_floor(series: Sequence[tuple[str, list[Point]]]) -> None:
    """Print what keeps the errors from being smaller, as a table in Markdown."""
    head = ["off a smooth curve", *(f"{kind}: {what}" for kind in KINDS for what in ("modak", "best law", "best mean"))]
    print("| series | " + " | ".join(head) + " |\n|---|" + "---|" * len(head))
    rows: list[list[float]] = []
    for name, points in series:
        row = [off_smooth(points)]
        for pairs in splits(points).values():
            errors, best = told(pairs).errors["modak"], in_hindsight(pairs)
            row += [statistics.fmean(errors), *best] if errors and best else [math.nan] * 3
        rows.append(row)
        print(_floor_row(name, row))
    columns = [[cell for cell in column if not math.isnan(cell)] for column in zip(*rows, strict=True)]
    for title, of in (("mean", statistics.fmean), ("median", statistics.median)):
        print(_floor_row(title, [of(column) if column else math.nan for column in columns]))


def _floor_row(name: str, row: Sequence[float]) -> str:
    return f"| {name} | " + " | ".join("-" if math.isnan(cell) else f"{cell:.1%}" for cell in row) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--design", action="store_const", dest="series", const=DESIGN, help="the series of the design")
    parser.add_argument("--series", type=Path)
    parser.add_argument("--floor", action="store_true", help="print how small the errors can be at all")
    parser.set_defaults(series=HELD_OUT)
    options = parser.parse_args()
    series = [*published(options.series), *stored()]
    if options.floor:
        show_floor(series)
    else:
        show_errors(series)


if __name__ == "__main__":
    main()
