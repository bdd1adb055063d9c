"""Measure what the laws of scaling are worth on published series: scaling_laws.py [--design | --series FILE].

Without options the series are those of scaling_held_out.yaml, which no law or rule was chosen with; with --design those
of scaling_series.yaml, which they were. Of each series every layout is left out in turn, and those beyond half of the
largest number of workers are predicted from those below; printed are the mean relative errors of modak's averaged
laws, and of Amdahl's law, the universal scalability law and a power law alone, and how often modak's 95% and 90%
intervals held what came. Series in the store and in the catalogue (measurements of one configuration at several
layouts) are taken as well.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from modak_deploy.performance.laws import POWER, Point, fit, value
from modak_deploy.performance.records import available_measurements
from modak_deploy.performance.scaletable import series_of
from modak_deploy.performance.scaling import ScaleModel, fit_scale

DESIGN, HELD_OUT = (Path(__file__).parent / name for name in ("scaling_series.yaml", "scaling_held_out.yaml"))
LEVELS = (0.95, 0.9)
RIVALS = ("Amdahl", "USL", POWER)
Predict = Callable[[Point], float]


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


def splits(points: Sequence[Point]) -> dict[str, list[tuple[list[Point], list[Point]]]]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--design", action="store_const", dest="series", const=DESIGN, help="the series of the design")
    parser.add_argument("--series", type=Path)
    parser.set_defaults(series=HELD_OUT)
    path = parser.parse_args().series
    errors: dict[tuple[str, str], list[float]] = {}
    held: dict[tuple[str, float], list[bool]] = {}
    print(f"{'series':<26}{'':<14}" + "".join(f"{name:>12}" for name in ("modak", *RIVALS)) + "   laws")
    for name, points in [*published(path), *stored()]:
        for kind, pairs in splits(points).items():
            own: dict[str, list[float]] = {law: [] for law in ("modak", *RIVALS)}
            model: ScaleModel | None = None
            for training, test in pairs:
                model = fit_scale(training)
                ways: dict[str, Predict | None] = {"modak": model.seconds if model else None}
                ways |= {law: rival(law, training) for law in RIVALS}
                for point in test:
                    for law, predict in ways.items():
                        if predict is not None:
                            own[law].append(abs(predict(point) / point.seconds - 1))
                    if model is not None:
                        for level in LEVELS:
                            interval = model.interval(point, level=level)
                            inside = interval.low <= point.seconds <= interval.high
                            held.setdefault((kind, level), []).append(inside)
            if own["modak"]:
                for law, values in own.items():
                    errors.setdefault((kind, law), []).append(statistics.fmean(values))
            told = "".join(f"{statistics.fmean(v):>11.1%} " if v else f"{'-':>11} " for v in own.values())
            print(f"{name:<26}{kind:<14}{told}  {model.law if model else 'none foretells it'}")
    print()
    for kind in ("interpolated", "extrapolated"):
        means = "".join(f"{statistics.fmean(errors[kind, law]):>11.1%} " for law in ("modak", *RIVALS))
        medians = "".join(f"{statistics.median(errors[kind, law]):>11.1%} " for law in ("modak", *RIVALS))
        print(f"{f'mean of {len(errors[kind, RIVALS[0]])} series':<26}{kind:<14}{means}  where modak tells of it")
        shares = ", ".join(
            f"{sum(held[kind, level])} of {len(held[kind, level])} in the {level:.0%} interval" for level in LEVELS
        )
        print(f"{'median':<26}{kind:<14}{medians}  {shares}")


if __name__ == "__main__":
    main()
