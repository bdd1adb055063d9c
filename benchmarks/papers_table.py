"""Tables of docs/papers.md: what three papers published beside what was measured here.

The published figures are records of the catalogue. Why ours differ stands in ``measured/papers.yaml``.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import engine_table
import yaml
from markdown_table import markdown

from modak_deploy.catalogue.catalogue import DATA
from modak_deploy.evidence.finished import read_finished
from modak_deploy.model.measurement import Measurement, Ratio, Run
from modak_deploy.performance.records import read_records

MEASURED = Path(__file__).resolve().parent / "measured"
PUBLISHED = DATA / "measurements"
DIGITS = PUBLISHED / "digits-amd-epyc-2-cores.jsonl"
EPOCHS = 12
NONE = "-"


def reasons() -> Any:
    """Return the sentences on differences, and which measurements here are comparable, by the paper."""
    return yaml.safe_load((MEASURED / "papers.yaml").read_text(encoding="utf-8"))


def seconds(run: Run) -> float:
    """Return the seconds of EPOCHS epochs: start, first epoch, and the others at the later ones' median."""
    return (run.start or 0.0) + (run.first or 0.0) + (EPOCHS - 1) * statistics.median(run.later)


def digits() -> dict[tuple[str, ...], float]:
    """Return the median seconds of the digits example by its levers."""
    found = [record for record in read_records(DIGITS) if isinstance(record, Measurement)]
    return {tuple(one.configuration.levers): statistics.median(map(seconds, one.runs)) for one in found}


def compilers() -> str:
    """Return the ratios of MODAK's figures 3 to 5, and those of the same choice here."""
    totals = digits()
    rows = [("MODAK", "times as fast there", "times as fast here", "why")]
    said = {(entry["from"], entry["to"]): entry for entry in reasons()["modak"]}
    for ratio in _ratios(PUBLISHED / "published-modak.jsonl"):
        entry = said[_way(ratio.baseline), _way(ratio.configuration)]
        here = NONE
        if "here" in entry:
            before, after = (tuple(levers) for levers in entry["here"])
            here = f"{totals[before] / totals[after]:.2f}"
        place = ratio.provenance.place.removeprefix("section VI, ")
        there = " to ".join(dict.fromkeys(f"{end:.2f}" for end in (ratio.low, ratio.high)))
        rows.append((f"{place}: {entry['from']} to {entry['to']}", there, here, entry["why"]))
    return markdown(rows)


def _ratios(path: Path) -> Iterable[Ratio]:
    return [record for record in read_records(path) if isinstance(record, Ratio)]


def _way(configuration: Any) -> str:
    return " + ".join([configuration.image, *configuration.levers])


def conversions() -> str:
    """Return the left columns of HiT's Table 3 beside the medians here."""
    published: dict[tuple[str, str], float] = {}
    for record in read_records(PUBLISHED / "published-hit.jsonl"):
        if isinstance(record, Measurement) and not record.hardware.accelerators and record.summary:
            published[record.workload.model or "", record.configuration.framework or "pytorch"] = record.summary.mean
    cells = json.loads((MEASURED / "engines-amd-epyc-2-cores.json").read_text())["cells"]
    rows = [
        ("model", "PyTorch there", "ONNX Runtime there", "times", "PyTorch here", "ONNX Runtime here", "times", "why")
    ]
    for entry in reasons()["hit"]:
        model = entry["model"]
        ours = engine_table.times(cells[f"{entry['here']} 1"]["rows"])
        framework, runtime = ours["pytorch"].median, ours["onnxruntime"].median
        theirs = published[model, "pytorch"], published[model, "onnxruntime"]
        rows.append(
            (
                entry["here"],
                *(f"{one:.2f} s" for one in theirs),
                f"{theirs[0] / theirs[1]:.2f}",
                *(f"{1000 * one:.1f} ms" for one in (framework, runtime)),
                f"{framework / runtime:.2f}",
                entry["why"],
            )
        )
    return markdown(rows)


def containers() -> str:
    """Return the study's table, the same quantities here, and why they differ."""
    rows = [("", "runs", "mean (s)", "min", "max", "deviation", "overhead", "peak memory")]
    entries = reasons()["study"]
    for entry in entries:
        rows += _published(entry)
        if "here" in entry:
            rows += _ours(MEASURED / "study-amd-epyc-2-cores" / entry["here"], entry["title"])
    return "\n".join([markdown(rows), *(f"* {entry['title']}: {entry['why']}" for entry in entries)]) + "\n"


def packings() -> str:
    """Return the study's table on another machine: all ways to pack the same files, and a training."""
    rows = [("", "runs", "mean (s)", "min", "max", "deviation", "overhead", "peak memory")]
    for entry in reasons()["packings"]:
        rows += _ours(MEASURED / "study-amd-epyc-avx2-2-cores" / entry["here"], entry["title"])
    return markdown(rows)


def _published(entry: Mapping[str, Any]) -> list[tuple[str, ...]]:
    wanted = entry["model"], entry["type"], entry["gpu"]
    found = {
        record.configuration.runtime: record.summary
        for record in read_records(PUBLISHED / "published-singularity-study.jsonl")
        if isinstance(record, Measurement)
        and record.summary
        and (record.workload.model, record.type, bool(record.hardware.accelerators)) == wanted
    }
    native = found["native"].mean
    rows = []
    for runtime, summary in found.items():
        figures = (summary.mean, summary.minimum, summary.maximum, summary.deviation)
        rows.append(_row(f"{entry['title']} there, {runtime}", summary.count, figures, native, NONE))
    return rows


def _ours(folder: Path, title: str) -> list[tuple[str, ...]]:
    finished = read_finished(folder)
    rows = []
    for outcome in finished.outcomes:
        walls, mean = outcome.walls, outcome.mean.value
        peak = statistics.median(repeat.peak or 0 for repeat in outcome.counted)
        figures = (mean, min(walls), max(walls), outcome.deviation)
        native, memory = finished.default.mean.value, f"{peak / 2**20:.0f} MiB"
        rows.append(_row(f"{title} here, {outcome.name}", len(walls), figures, native, memory))
    return rows


def _row(title: str, count: int | None, figures: Sequence[float | None], native: float, memory: str) -> tuple[str, ...]:
    mean = figures[0] or 0.0
    overhead = NONE if mean == native else f"{mean / native - 1:+.1%}"
    return (title, str(count), *(f"{value:.2f}" for value in figures), overhead, memory)
