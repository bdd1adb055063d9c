"""What ``modak model scale`` prints: the law of each series of runs, the measured points, and a table over ranks."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.laws import Point
from modak_deploy.performance.matching import cores_of, seconds_of_units
from modak_deploy.performance.records import Measurements
from modak_deploy.performance.scaling import SPARE, ScaleModel, fit_scale


@dataclass(frozen=True)
class Series:
    """Runs of one configuration on one kind of node that differ in layout and problem size alone."""

    title: str
    points: Sequence[Point]
    ranks_per_node: int

    def layouts(self) -> list[Point]:
        """Return what was measured and its doublings to twice the largest number of ranks, on full nodes."""
        largest = max(self.points, key=lambda point: point.workers)
        ranks = {point.ranks for point in self.points}
        ranks |= {2**power for power in range((2 * max(ranks)).bit_length())}
        measured = {(p.ranks, p.threads, p.size): p for p in self.points}
        wanted = [
            Point(math.ceil(count / self.ranks_per_node), count, largest.threads, size=largest.size)
            for count in sorted(ranks)
        ]
        return [measured.get((p.ranks, p.threads, p.size), p) for p in wanted]


def series_of(records: Iterable[Measurement | Ratio]) -> list[Series]:
    """Return the series among records of one workload, those with most layouts first."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for record in records:
        if isinstance(record, Measurement):
            groups.setdefault(_key(record), []).append(record)
    series = []
    for group in groups.values():
        units = max(record.workload.units for record in group)
        points = [point for record in group for point in _points(record, units)]
        if points:
            per_node = max(math.ceil(point.ranks / point.nodes) for point in points)
            series.append(Series(_title(group[0]), points, per_node))
    return sorted(
        series, key=lambda series: (-len({(p.nodes, p.ranks, p.threads, p.size) for p in series.points}), series.title)
    )


def _key(record: Measurement) -> tuple[str, ...]:
    hardware = record.hardware.identity("cores", "memory")
    workload = record.workload.model_dump_json(exclude={"units", "samples"})
    configuration = record.configuration.model_dump_json(exclude={"nodes", "ranks", "threads"})
    return (
        record.type,
        record.framework or "",
        hardware,
        workload,
        configuration,
        str(sorted(record.software.items())),
    )


def _points(record: Measurement, units: int) -> Iterator[Point]:
    """Yield the time of a unit in a run of so many, as the longest of the series has."""
    c = record.configuration
    seconds = [seconds_of_units(run, record, units) for run in record.runs if run.total is not None]
    if record.summary is not None:
        seconds = [record.summary.mean * units / record.workload.units]
    if seconds:
        per_unit = statistics.median(seconds) / units
        yield Point(c.nodes, c.ranks, c.threads or 1, per_unit, float(record.workload.samples or 1))


def _title(record: Measurement) -> str:
    c, hardware = record.configuration, record.hardware
    where = (
        hardware.accelerator or hardware.cpu_model or hardware.microarchitecture or f"{cores_of(hardware.cores)}nodes"
    )
    dataset = f" on {record.workload.dataset}" if record.workload.dataset else ""
    parts = [c.runtime, *([c.image] if c.image else []), *c.levers]
    return f"{record.workload.model}{dataset}, {where}, {'+'.join(parts)}"


def scale_lines(model: str, measurements: Measurements) -> Iterator[str]:
    """Yield what is known of how the workload named ``model`` scales; InputError where nothing was measured of it."""
    for number, series in enumerate(_series(model, measurements)):
        yield from [""] if number else []
        yield series.title
        yield from _series_lines(series)


def scale_values(model: str, measurements: Measurements) -> list[dict[str, Any]]:
    """Return what ``scale_lines`` shows as values: the laws and the layouts of each series."""
    return [_series_value(series) for series in _series(model, measurements)]


def _series(model: str, measurements: Measurements) -> Sequence[Series]:
    records = measurements.of_workload(model)
    if not records:
        raise InputError(f"nothing was measured for the workload '{model}'; 'modak measurements list' shows what was")
    return list(series_of(records))


def _series_value(series: Series) -> dict[str, Any]:
    model = fit_scale(series.points)
    laws = [] if model is None else [{"law": law.law, "weight": law.weight, "error": law.error} for law in model.laws]
    return {
        "series": series.title,
        "error": None if model is None else model.error,
        "laws": laws,
        "layouts": [_layout(*layout, model) for layout in layouts_of(series, model).items()],
    }


def _layout(key: "_Layout", values: Sequence[float], model: ScaleModel | None) -> dict[str, Any]:
    nodes, ranks, threads, size = key
    point = Point(nodes, ranks, threads, size=size)
    interval = None if model is None else model.interval(point)
    return {
        "nodes": nodes, "ranks": ranks, "threads": threads, "size": size,
        "measured": statistics.median(values) if values else None,
        "predicted": None if interval is None else interval.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "efficiency": None if model is None else model.efficiency(point),
    }  # fmt: skip


def _series_lines(series: Series) -> Iterator[str]:
    model = fit_scale(series.points)
    layouts = len({(p.nodes, p.ranks, p.threads, p.size) for p in series.points})
    if model is None:
        enough = layouts >= SPARE + 2
        why = "no law predicts one layout from the others" if enough else f"a law needs {SPARE + 2} or more"
        yield f"  {layouts} layout{'s' if layouts > 1 else ''} measured; {why}"
    else:
        yield f"  {len(series.points)} runs in {layouts} layouts; error at layouts that were held out {model.error:.1%}"
        for law in model.laws:
            terms = ", ".join(f"{coefficient:.4g}" for coefficient in law.coefficients)
            yield f"  {law.weight:4.0%} {law.law} ({terms}), error {law.error:.1%}"
    yield "  nodes  ranks  threads      size    measured   predicted              95% interval  efficiency"
    yield from _rows(series, model)


_Layout = tuple[int, int, int, float]
"""Nodes, ranks, threads, size."""


def layouts_of(series: Series, model: ScaleModel | None) -> dict[_Layout, list[float]]:
    """Return the layouts of the table in their order, each with the seconds that were measured."""
    measured: dict[_Layout, list[float]] = {}
    for p in series.points:
        measured.setdefault((p.nodes, p.ranks, p.threads, p.size), []).append(p.seconds)
    wanted = {(p.nodes, p.ranks, p.threads, p.size) for p in series.layouts()} if model else set()
    order = sorted({*measured, *wanted}, key=lambda key: (key[3], key[1], key[2], key[0]))
    return {key: measured.get(key, []) for key in order}


def _rows(series: Series, model: ScaleModel | None) -> Iterator[str]:
    for (nodes, ranks, threads, size), values in layouts_of(series, model).items():
        row = f"  {nodes:>5}  {ranks:>5}  {threads:>7}  {size:>8.6g}  "
        row += f"{statistics.median(values):>9.4g} s" if values else f"{'-':>11}"
        if model is not None:
            point = Point(nodes, ranks, threads, size=size)
            interval = model.interval(point)
            between = f"{interval.low:.4g} to {interval.high:.4g} s"
            row += f"  {interval.value:>8.4g} s  {between:>24}  {model.efficiency(point):>9.0%}"
        yield row
