"""A benchmark as a section of a report, and as a table for the terminal."""

import math
import statistics
from collections.abc import Iterator, Sequence

from modak_deploy.evidence import values
from modak_deploy.evidence.finished import Finished
from modak_deploy.evidence.marks import Axes, Line, Mark, lines
from modak_deploy.evidence.protocol import Outcome, Repeat, gain
from modak_deploy.evidence.view import Drawing, Emphasis, Figure, Intervals, Part, Row, Section, Table, Tone, Value
from modak_deploy.performance.statistics import Interval
from modak_deploy.util.text import plural

_DRAWN = 6
"""Configurations in the drawing of memory."""
_STEPS = 60


def benchmark_section(finished: Finished) -> Section:
    """Return everything that a report says of a benchmark."""
    parts: list[Part | None] = [_gains(finished), _times(finished), _phases(finished), memory_drawing(finished)]
    return Section(
        finished.description.title,
        answer(finished),
        list(_figures(finished)),
        [part for part in parts if part is not None],
    )


def _compared(finished: Finished) -> list[tuple[Outcome, Interval]]:
    """Return what counts, the fastest first, with its gain over the default."""
    default = finished.default
    others = [
        outcome for outcome in finished.outcomes if outcome is not default and outcome.counted and not outcome.fault
    ]
    return sorted(((outcome, gain(default, outcome)) for outcome in others), key=lambda pair: -pair[1].value)


def answer(finished: Finished) -> str:
    """Return what the benchmark showed in one or two sentences."""
    gains, description = _compared(finished), finished.description
    rounds = f"in {plural(len(finished.default.counted), 'round')}"
    if description.choice is None:
        refused = [outcome.name for outcome in finished.outcomes if outcome.fault]
        without = f" Refused: {', '.join(refused)}." if refused else ""
        return _against(description.default, gains, rounds) + without
    if description.choice == description.default:
        text = f"modak kept the default, {description.default}, {rounds}."
    else:
        ratio = next((ratio for outcome, ratio in gains if outcome.name == description.choice), None)
        shown = (
            f"{ratio.value:.2f} times as fast as the default ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else None
        )
        text = f"modak's choice, {description.choice}, was {shown or 'refused'} {rounds}."
    if gains and gains[0][1].low > 1 and gains[0][0].name != description.choice:
        text += f" The fastest was {gains[0][0].name}, {gains[0][1].value:.2f} times as fast as the default."
    return text


def _against(default: str, gains: Sequence[tuple[Outcome, Interval]], rounds: str) -> str:
    """Return how far the others are from the default, of which nobody expects that it is the slowest."""
    if not gains:
        return f"Only {default} was measured, {rounds}."
    near, slow = min(gains, key=lambda pair: abs(math.log(pair[1].value))), gains[-1]
    text = f"{near[0].name} came closest to {default}, with {_longer(near[1])}"
    if slow is not near and slow[1].value < 1:
        text = f"{slow[0].name} took the longest, {_longer(slow[1])} of {default}; {text}"
    return f"{text}; {rounds}."


def method(finished: Finished) -> str:
    """Return how it was measured, in one or two sentences."""
    protocol = finished.description.protocol
    # What the default does not repeat itself is known once it has run twice.
    compared = max((repeat.compared for repeat in finished.repeats if repeat.block >= 0), default=0)
    results = f"{plural(compared, 'result')} of each run compared with the default's" if compared else "not compared"
    rounds = plural(protocol.most, "round")
    if protocol.least < protocol.most:
        rounds = f"{protocol.least} to {rounds}, until each mean is known to {values.percent(protocol.width)}"
    return f"Whole processes in interleaved rounds of random order, after a warm-up: {rounds}. Results: {results}."


def _longer(ratio: Interval) -> str:
    return f"{1 / ratio.value:.2f} times the time"


def _figures(finished: Finished) -> Iterator[Figure]:
    compared, description = _compared(finished), finished.description
    mean = finished.default.mean
    half = values.percent((mean.high - mean.value) / mean.value)
    several = len(finished.default.counted) > 1
    spread = f"\N{PLUS-MINUS SIGN} {half}" if several else "one run"
    yield Figure("Default", values.seconds(mean.value), f"{description.default}, {spread}")
    ratios = {outcome.name: ratio for outcome, ratio in compared}
    ratios[description.default] = Interval(1.0, 1.0, 1.0)
    best = max(ratio.value for ratio in ratios.values())
    if description.choice is not None:
        ratio = ratios.get(description.choice)
        tone: Tone = "" if ratio is None else "good" if ratio.low > 1 else "bad" if ratio.high < 1 else ""
        shown = "refused" if ratio is None else values.times(ratio.value)
        yield Figure("modak's choice", shown, description.choice, tone)
        if ratio is not None:
            yield Figure("Regret", values.percent(best / ratio.value - 1), "how much longer than the fastest measured")
    elif compared:
        outcome, ratio = compared[0]
        yield Figure("Fastest other", values.times(ratio.value), outcome.name, "good" if ratio.low > 1 else "")
    refused = [outcome for outcome in finished.outcomes if outcome.fault]
    if refused:
        yield Figure("Refused", str(len(refused)), "wrong results, a bad end, or a lever that was not on", "bad")
    disturbed = sum(outcome.disturbed for outcome in finished.outcomes)
    outliers = sum(outcome.outliers for outcome in finished.outcomes)
    counted = sum(len(outcome.counted) for outcome in finished.outcomes)
    yield Figure("Runs that count", str(counted), f"{disturbed} disturbed by other work, {outliers} outliers")


def _gains(finished: Finished) -> Intervals:
    description, default = finished.description, finished.default
    rows = [_row(default, Interval(1.0, 1.0, 1.0), finished)]
    rows += [_row(outcome, ratio, finished) for outcome, ratio in _compared(finished)]
    rows += [
        Row(outcome.name, "refused", "", outcome.fault, Mark(None), "bad")
        for outcome in finished.outcomes
        if outcome.fault is not None
    ]
    return Intervals(
        "Gain over the default",
        f"Time of {description.default} over the time of each configuration, round by round.",
        ("Configuration", "Gain", "95 % interval", "Mean time"),
        rows,
        reference=1.0,
        legend="Dot: ratio of the geometric means. Line: its 95 % interval. Upright line: the default.",
        logarithmic=True,
    )


def _row(outcome: Outcome, ratio: Interval, finished: Finished) -> Row:
    is_default = outcome.name == finished.description.default
    emphasis: Emphasis = "default" if is_default else "chosen" if ratio.low > 1 else "bad" if ratio.high < 1 else ""
    label = outcome.name + (" (modak's choice)" if outcome.name == finished.description.choice else "")
    between = "" if is_default else values.between(ratio.low, ratio.high)
    note = f"{values.seconds(outcome.mean.value)}, {plural(len(outcome.counted), 'run')}"
    note += ", all disturbed by other work" if outcome.is_disturbed else ""
    mark = Mark(ratio.value, ratio.low, ratio.high, None, emphasis)
    return Row(label, values.times(ratio.value), between, note, mark, emphasis)


HEADS = ("Configuration", "Mean", "Min", "Max", "STD", "Overhead", "CPU time", "Peak memory", "Runs")


def time_rows(finished: Finished) -> list[list[str]]:
    """Return the table of the study: mean, minimum, maximum and standard deviation in seconds, and the overhead."""
    default, rows = finished.default, []
    for outcome in finished.outcomes:
        if not outcome.counted or outcome.fault:
            continue
        over = "" if outcome is default else values.percent(outcome.mean.value / default.mean.value - 1, signed=True)
        peaks = [repeat.peak for repeat in outcome.counted if repeat.peak]
        rows.append(
            [
                outcome.name,
                *(f"{value:.3f}" for value in (outcome.mean.value, min(outcome.walls), max(outcome.walls))),
                "-" if outcome.deviation is None else f"{outcome.deviation:.3f}",
                over,
                f"{statistics.fmean(repeat.cpu for repeat in outcome.counted):.3f}",
                values.size(statistics.fmean(peaks)) if peaks else "",
                str(len(outcome.counted)),
            ]
        )
    return rows


def _times(finished: Finished) -> Table:
    text = _noted("Wall time of whole processes; CPU time of all their processes.", [finished])
    return Table("Times in seconds", text, HEADS, time_rows(finished))


def _noted(text: str, benchmarks: Sequence[Finished]) -> str:
    """Return the text with the notes of benchmarks after it, each once."""
    notes = dict.fromkeys(note for finished in benchmarks for note in finished.description.notes)
    return " ".join([text, *(f"Note on {note}." for note in notes)])


def overview(benchmarks: Sequence[Finished]) -> Section:
    """Return the table of several benchmarks, as the study of Jordan et al. has it."""
    heads = ["Benchmark", "Configuration", *HEADS[1:6], HEADS[8]]
    rows = [[finished.description.title, *row[:6], row[8]] for finished in benchmarks for row in time_rows(finished)]
    text = " ".join(f"{finished.description.title}: {answer(finished)}" for finished in benchmarks)
    summary = _noted("Wall time of whole processes.", benchmarks)
    return Section("Overview", text, (), [Table("All times in seconds", summary, heads, rows)])


def _phases(finished: Finished) -> Table | None:
    rows = []
    for outcome in finished.outcomes:
        parts = [phases for repeat in outcome.counted if (phases := _parts(repeat)) is not None]
        if parts and not outcome.fault:
            middle = [statistics.median(part[number] for part in parts) for number in range(4)]
            rows.append([outcome.name, *(values.seconds(value) for value in middle)])
    if not rows:
        return None
    return Table(
        "Phases",
        "Medians. Start is everything outside of the units; the first unit holds compilation.",
        ["Configuration", "Start and end", "Compilation", "First unit", "Later unit"],
        rows,
    )


def _parts(repeat: Repeat) -> tuple[float, float, float, float] | None:
    if repeat.first is not None and repeat.later:
        later = statistics.median(repeat.later)
        outside = repeat.wall - repeat.first - sum(repeat.later)
        return max(outside, 0.0), max(repeat.first - later, 0.0), repeat.first, later
    if repeat.steady is not None and repeat.elapsed is not None:
        compiled = repeat.compile or 0.0
        return max(repeat.wall - repeat.elapsed, 0.0), compiled, compiled + repeat.steady, repeat.steady
    return None


def memory_drawing(finished: Finished) -> Drawing | None:
    """Return the memory of all processes over time, of each configuration; None where it was not sampled."""
    series, key = [], []
    shown = [
        outcome
        for outcome in finished.outcomes
        if not outcome.fault and any(len(r.memory) > 2 for r in outcome.counted)
    ]
    for number, outcome in enumerate(shown[:_DRAWN], start=1):
        band = _profile([repeat for repeat in outcome.counted if len(repeat.memory) > 2])
        mean = [(x, middle) for x, _, middle, _ in band]
        series.append(Line(outcome.name, mean, f"s{number}", [(x, low, high) for x, low, _, high in band]))
        key.append((f"s{number}", outcome.name))
    if not series:
        return None
    title = f"Memory over time: {finished.description.title}"
    axes = Axes(title, "seconds", "resident memory", y_text=values.size)
    more = f" The first {_DRAWN} of {len(shown)}." if len(shown) > _DRAWN else ""
    return Drawing("Memory over time", f"Line: mean. Band: one standard deviation.{more}", lines(axes, series), key)


def _profile(repeats: Sequence[Repeat]) -> list[tuple[float, float, float, float]]:
    """Return time, and of memory the mean, with a standard deviation less before it, but for what is below zero, and
    one more behind it; each run is stretched to the mean time."""
    whole = statistics.fmean(repeat.wall for repeat in repeats)
    band = []
    for step in range(_STEPS + 1):
        share = step / _STEPS
        rows = [
            float(repeat.memory[min(int(share * len(repeat.memory)), len(repeat.memory) - 1)]) for repeat in repeats
        ]
        mean = statistics.fmean(rows)
        deviation = statistics.stdev(rows) if len(rows) > 1 else 0.0
        band.append((share * whole, max(mean - deviation, 0.0), mean, mean + deviation))
    return band


def benchmark_values(finished: Finished) -> Iterator[Value]:
    """Yield every number of the benchmark for the CSV file, each single run among them."""
    section = f"benchmark {finished.description.title}"
    for outcome in finished.outcomes:
        if outcome.fault:
            yield Value(section, outcome.name, "refused", outcome.fault)
        elif outcome.counted:
            yield from _summary_values(finished, outcome, section)
        yield from _run_values(finished, outcome, section)


def _summary_values(finished: Finished, outcome: Outcome, section: str) -> Iterator[Value]:
    mean = outcome.mean
    yield Value(section, outcome.name, "mean time", mean.value, mean.low, mean.high, "s", "measurement")
    if outcome.deviation is not None:
        yield Value(section, outcome.name, "standard deviation", outcome.deviation, unit="s", basis="measurement")
    if outcome is not finished.default:
        ratio = gain(finished.default, outcome)
        yield Value(section, outcome.name, "gain", ratio.value, ratio.low, ratio.high, "x", "measurement")


def _run_values(finished: Finished, outcome: Outcome, section: str) -> Iterator[Value]:
    counted = set() if outcome.fault else {id(repeat) for repeat in outcome.counted}
    for repeat in finished.repeats:
        if repeat.name == outcome.name:
            what = f"time in {repeat.turn(finished.tasks)}"
            what += "" if id(repeat) in counted else " (does not count)"
            yield Value(section, outcome.name, what, repeat.wall, unit="s", basis="measurement")


def table_lines(finished: Finished) -> list[str]:
    """Return the table for a terminal."""
    rows = [list(HEADS), *time_rows(finished)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = [finished.description.title]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    lines += [f"refused: {outcome.name}: {outcome.fault}" for outcome in finished.outcomes if outcome.fault]
    disturbed = [outcome.name for outcome in finished.outcomes if outcome.counted and outcome.is_disturbed]
    lines += [f"note: other work disturbed all runs of {name}" for name in disturbed]
    lines += [f"note: {note}" for note in finished.description.notes]
    return [*lines, answer(finished)]
