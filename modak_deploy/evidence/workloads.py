"""What was measured of a workload as a section of a report: gains, levers, containers, scaling and regret."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from modak_deploy.evidence import values
from modak_deploy.evidence.comparing import Comparison, Sample, name_of
from modak_deploy.evidence.marks import Axes, Line, Mark, lines
from modak_deploy.evidence.view import Drawing, Emphasis, Figure, Intervals, Part, Row, Section, Table, Tone, Value
from modak_deploy.model.measurement import Configuration, Measurement, Ratio
from modak_deploy.performance.laws import Point
from modak_deploy.performance.scaletable import Series, layouts_of, series_of
from modak_deploy.performance.scaling import SPARE, fit_scale
from modak_deploy.performance.statistics import Interval
from modak_deploy.util.text import plural

SHOWN = 40
_GAIN_HEADS = ("Configuration", "Gain", "95 % interval", "Measured")


def workload_section(comparison: Comparison) -> Section:
    """Return what was measured of a workload on one hardware."""
    gains = comparison.gains
    parts: list[Part | None] = [_gains(comparison, gains), _levers(comparison), _containers(comparison)]
    return Section(
        title=f"{comparison.title} on {comparison.hardware}",
        answer=_answer(comparison, gains),
        figures=list(_figures(comparison, gains)),
        parts=[part for part in parts if part is not None],
    )


def _answer(comparison: Comparison, gains: Sequence[tuple[Sample, Interval]]) -> str:
    start = f"On {comparison.hardware}"
    if not gains:
        return f"{start} one configuration was measured: nothing can be compared."
    sample, best = gains[0]
    if best.value <= 1:
        return f"{start} nothing measured was faster than {name_of(comparison.baseline.configuration)}."
    rivals = (other for other in comparison.samples if other is not sample)
    sure = "certainly" if all(comparison.gain(rival, sample).low > 1 for rival in rivals) else "perhaps"
    return (
        f"{start} {name_of(sample.configuration)} was {sure} the fastest: {best.value:.2f} times as fast as "
        f"{name_of(comparison.baseline.configuration)} ({best.low:.2f} to {best.high:.2f})."
    )


def _figures(comparison: Comparison, gains: Sequence[tuple[Sample, Interval]]) -> Iterator[Figure]:
    baseline = comparison.baseline
    yield Figure("Baseline", values.seconds(baseline.seconds), f"{name_of(baseline.configuration)}, {baseline.count}")
    if not gains:
        return
    sample, best = gains[0]
    fast: Tone = "good" if best.low > 1 else ""
    yield Figure("Fastest", values.times(best.value), name_of(sample.configuration), fast)
    worst_sample, worst = gains[-1]
    slow: Tone = "bad" if worst.high < 1 else ""
    yield Figure("Slowest", values.times(worst.value), name_of(worst_sample.configuration), slow)
    regret = max(best.value - 1, 0.0)
    yield Figure("Regret of the baseline", values.percent(regret), "how much longer it takes than the fastest measured")


def _gains(comparison: Comparison, gains: Sequence[tuple[Sample, Interval]]) -> Intervals | None:
    if not gains:
        return None
    baseline = comparison.baseline
    rows = [_sample_row(baseline, Interval(1.0, 1.0, 1.0), "default")]
    rows += [_sample_row(sample, ratio, _emphasis(ratio)) for sample, ratio in gains[:SHOWN]]
    more = f" {len(gains) - SHOWN} slower ones are in the CSV file." if len(gains) > SHOWN else ""
    return Intervals(
        "Gain over the baseline",
        f"Time of {name_of(baseline.configuration)} over the time of each configuration.{more}",
        _GAIN_HEADS,
        rows,
        reference=1.0,
        legend="Dot: ratio of the geometric means. Line: its 95 % interval. Upright line: the baseline.",
        logarithmic=True,
    )


def _emphasis(ratio: Interval) -> Emphasis:
    return "chosen" if ratio.low > 1 else "bad" if ratio.high < 1 else ""


def _sample_row(sample: Sample, ratio: Interval, emphasis: Emphasis) -> Row:
    between = "" if emphasis == "default" else values.between(ratio.low, ratio.high)
    note = f"{values.seconds(sample.seconds)}, {sample.count}"
    mark = Mark(ratio.value, ratio.low, ratio.high, kind=emphasis)
    return Row(name_of(sample.configuration), values.times(ratio.value), between, note, mark, emphasis)


def _levers(comparison: Comparison) -> Intervals | None:
    """Return what each lever brings alone: configurations that have one more lever than another."""
    samples = {_lever_key(sample.configuration): sample for sample in comparison.samples}
    rows = []
    for key, sample in samples.items():
        for lever in sorted(key[1]):
            without = samples.get((key[0], key[1] - {lever}))
            if without is not None:
                ratio = comparison.gain(without, sample)
                rows.append((lever, ratio, name_of(without.configuration)))
    if not rows:
        return None
    rows.sort(key=lambda row: -row[1].value)
    return Intervals(
        "Gain of each lever",
        "Time without the lever over time with it, everything else alike. Effects of levers do not multiply.",
        ("Lever", "Gain", "95 % interval", "Added to"),
        [
            Row(
                lever,
                values.times(ratio.value),
                values.between(ratio.low, ratio.high),
                f"added to {base}",
                Mark(ratio.value, ratio.low, ratio.high, kind=_emphasis(ratio)),
                _emphasis(ratio),
            )
            for lever, ratio, base in rows[:SHOWN]
        ],
        reference=1.0,
        legend="Right of the upright line: faster.",
        logarithmic=True,
    )


def _lever_key(configuration: Configuration) -> tuple[str, frozenset[str]]:
    return configuration.model_dump_json(exclude={"levers"}), frozenset(configuration.levers)


def _containers(comparison: Comparison) -> Intervals | None:
    """Return the container's cost: configurations that differ from a native one in runtime and image alone."""
    native = {_bare(s.configuration): s for s in comparison.samples if s.configuration.runtime == "native"}
    rows = []
    for sample in comparison.samples:
        other = native.get(_bare(sample.configuration))
        if sample.configuration.runtime != "native" and other is not None:
            ratio = comparison.gain(sample, other)
            rows.append(
                Row(
                    name_of(sample.configuration),
                    values.percent(ratio.value - 1, signed=True),
                    f"{values.percent(ratio.low - 1, signed=True)} to {values.percent(ratio.high - 1, signed=True)}",
                    f"{values.seconds(sample.seconds)} against {values.seconds(other.seconds)}",
                    Mark(ratio.value, ratio.low, ratio.high, kind="bad" if ratio.low > 1 else ""),
                    "bad" if ratio.low > 1 else "",
                )
            )
    if not rows:
        return None
    return Intervals(
        "Native against container",
        "How much longer the same work takes inside a container; below zero it is faster there.",
        ("Image", "Overhead", "95 % interval", "Times"),
        rows,
        reference=1.0,
        legend="Right of the upright line: slower than native.",
        logarithmic=True,
    )


def _bare(configuration: Configuration) -> str:
    return configuration.model_dump_json(exclude={"runtime", "image"})


def comparison_values(comparison: Comparison) -> Iterator[Value]:
    """Yield the numbers of a comparison for the CSV file."""
    section = f"{comparison.title}, {comparison.hardware}"
    pairs: list[tuple[Sample, Interval | None]] = [(comparison.baseline, None), *comparison.gains]
    for sample, ratio in pairs:
        name = name_of(sample.configuration)
        yield Value(section, name, "runs", sample.count)
        yield Value(section, name, "time", sample.seconds, unit="s", basis="measurement")
        if ratio is not None:
            yield Value(section, name, "gain", ratio.value, ratio.low, ratio.high, "x", "measurement")


def scaling_sections(records: Sequence[Measurement | Ratio]) -> Iterator[tuple[Section, list[Value]]]:
    """Yield a section for each series of runs that differ in ranks, threads or nodes."""
    models: Mapping[str, list[Measurement | Ratio]] = _by_model(records)
    for model in sorted(models):
        for series in series_of(models[model]):
            layouts = {(p.nodes, p.ranks, p.threads, p.size) for p in series.points}
            if len({p.workers for p in series.points}) > 1:
                yield _scaling(series, len(layouts))


def _by_model(records: Iterable[Measurement | Ratio]) -> dict[str, list[Measurement | Ratio]]:
    groups: dict[str, list[Measurement | Ratio]] = {}
    for record in records:
        groups.setdefault(record.workload.model or "", []).append(record)
    return groups


def _scaling(series: Series, layouts: int) -> tuple[Section, list[Value]]:
    model = fit_scale(series.points)
    sizes = {point.size for point in series.points}
    drawn_size = max(series.points, key=lambda point: point.workers).size
    rows: list[list[str]] = []
    numbers: list[Value] = []
    predictions: dict[float, Interval] = {}
    for (nodes, ranks, threads, size), seen in layouts_of(series, model).items():
        point = Point(nodes, ranks, threads, size=size)
        name = _layout_text(point, sized=len(sizes) > 1)
        row = [name, values.seconds(statistics.median(seen)) if seen else "-"]
        if model is None:
            row += ["-", "-", "-"]
        else:
            predicted = model.interval(point)
            if size == drawn_size:
                predictions[float(point.workers)] = predicted
            between = f"{values.seconds(predicted.low)} to {values.seconds(predicted.high)}"
            row += [values.seconds(predicted.value), between, values.percent(model.efficiency(point))]
            ends = predicted.low, predicted.high
            numbers.append(Value(series.title, name, "predicted time", predicted.value, *ends, "s", "model"))
        numbers += [Value(series.title, name, "time", seconds, unit="s", basis="measurement") for seconds in seen]
        rows.append(row)
    answer = (
        f"{layouts} layouts were measured; a law needs {SPARE + 2} or more that agree."
        if model is None
        else f"The time follows {model.law}; layouts that were held out are predicted to {values.percent(model.error)}."
    )
    size_text = f" All for a size of {drawn_size:g}; the table has the other sizes." if len(sizes) > 1 else ""
    drawn = _drawn([point for point in series.points if point.size == drawn_size], predictions)
    axes = Axes(f"Time of a unit over ranks and threads: {series.title}", "ranks x threads", "time of a unit",
                y_text=values.seconds, x_log=True, y_log=True)  # fmt: skip
    parts: list[Part] = [
        Drawing("Time over ranks", f"Both axes are logarithmic: a straight line down is perfect scaling.{size_text}",
                lines(axes, drawn), [(line.kind, line.label) for line in drawn]),
        Table("Layouts", "Measured: the median. Efficiency compares with one worker.",
              ["Layout", "Measured", "Predicted", "95 % interval", "Efficiency"], rows),
    ]  # fmt: skip
    return Section(f"Scaling of {series.title}", answer, (), parts), numbers


def _layout_text(point: Point, *, sized: bool) -> str:
    threads = f" of {plural(point.threads, 'thread')}" if point.threads > 1 else ""
    nodes = f" on {point.nodes} nodes" if point.nodes > 1 else ""
    return f"{plural(point.ranks, 'rank')}{threads}{nodes}" + (f", size {point.size:g}" if sized else "")


def _drawn(points: Sequence[Point], predictions: Mapping[float, Interval]) -> list[Line]:
    """Return what was measured, and what the laws predict for each number of workers, if there are laws."""
    dots = Line("measured", [(float(p.workers), p.seconds) for p in points], "s2", dots=True, joined=False)
    if not predictions:
        return [dots]
    workers = sorted(predictions)
    band = [(count, predictions[count].low, predictions[count].high) for count in workers]
    line = [(count, predictions[count].value) for count in workers]
    return [Line("predicted, with its 95 % interval", line, "s1", band), dots]
