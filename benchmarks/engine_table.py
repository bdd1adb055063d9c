"""The table of onnx_table.py: what each engine takes for a network and batch size, made from what was measured.

A cell's row per engine holds the ``seconds`` of its calls and its largest ``difference`` from the framework, or an
``error``. The times are milliseconds: the median, and in brackets an interval that holds it in about 95 % of cases.
"""

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from modak_deploy.onnx.timing import Times  # noqa: E402 - of this checkout

FRAMEWORK = "pytorch"
TITLES = {FRAMEWORK: "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "tvm": "TVM", "olive": "Olive"}
"""Engines in the order of their columns. Olive is a choice, run by ONNX Runtime: it is not among the best."""
NOTE = "-"
"""In place of a time that there is none of."""
Row = Mapping[str, Any]


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown of all cells, by their names ``model batch``, and what they say together."""
    measured = {name: times(cell["rows"]) for name, cell in cells.items()}
    engines = [engine for engine in TITLES if any(engine in row_of(cell["rows"]) for cell in cells.values())]
    head = ["model", "batch", *(TITLES[engine] for engine in engines), "best", "times PyTorch", "difference"]
    lines = [head, ["---"] * len(head)]
    for name, cell in cells.items():
        model, batch = name.split()
        found = measured[name]
        first = fastest(found)
        gain = f"{found[FRAMEWORK].median / found[first].median:.2f}" if first and FRAMEWORK in found else NOTE
        differences = [row["difference"] for row in cell["rows"] if row["engine"] != FRAMEWORK and "difference" in row]
        said = [milliseconds(found.get(engine)) for engine in engines]
        worst = f"{max(differences):.1e}" if differences else NOTE
        lines.append([model, batch, *said, TITLES[first] if first else NOTE, gain, worst])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *together(measured), *settings(cells), *errors(cells)]) + "\n"


def times(rows: Sequence[Row]) -> dict[str, Times]:
    """Return the times of a cell's engines."""
    return {row["engine"]: Times(tuple(row["seconds"])) for row in rows if "seconds" in row}


def row_of(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the rows by their engines."""
    return {row["engine"]: row for row in rows}


def fastest(found: Mapping[str, Times]) -> str | None:
    """Return the engine with the shortest median."""
    return min((name for name in found if name != "olive"), key=lambda name: found[name].median, default=None)


def milliseconds(found: Times | None) -> str:
    """Return a median and its interval."""
    if found is None:
        return NOTE
    low, high = found.interval
    once = len(found.seconds) == 1
    digits = max(0, 2 - math.floor(math.log10(max(1000 * found.median, 1e-3))))
    interval = "once" if once else f"{1000 * low:.{digits}f} to {1000 * high:.{digits}f}"
    return f"{1000 * found.median:.{digits}f} ({interval})"


def together(measured: Mapping[str, Mapping[str, Times]]) -> list[str]:
    """Return a sentence with the geometric means of what was measured with all engines, and how often each is best."""
    whole = [found for found in measured.values() if FRAMEWORK in found and len(found) > 1]
    if not whole:
        return []
    said = []
    for engine in TITLES:
        ratios = [found[FRAMEWORK].median / found[engine].median for found in whole if engine in found]
        if engine != FRAMEWORK and ratios:
            said.append(f"{TITLES[engine]} {statistics.geometric_mean(ratios):.2f}")
    firsts = [fastest(found) for found in whole]
    best = statistics.geometric_mean(f[FRAMEWORK].median / f[str(n)].median for f, n in zip(whole, firsts, strict=True))
    counts = ", ".join(f"{TITLES[name]} {firsts.count(name)}" for name in TITLES if name in firsts)
    means = f"Times as fast as PyTorch, geometric means: {', '.join(said)}; the best of them each time **{best:.2f}**."
    return [f"{means} Best of {len(whole)}: {counts}."]


def settings(cells: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what the cells were measured with, a sentence for each setting."""
    models: dict[str, dict[str, list[int]]] = {}
    for name, cell in cells.items():
        setting = cell["setting"]
        versions = ", ".join(f"{package} {version}" for package, version in setting["versions"].items())
        tuning = f"{setting['tuning']:g} s of tuning by TVM for each cell" if setting["tuning"] else "TVM not tuned"
        text = f"{versions}; {setting['cores']} cores; {tuning}"
        counts = models.setdefault(text, {}).setdefault(name.split()[0], [])
        counts += [row["programs"] for row in cell["rows"] if row.get("programs")]
    sentences = []
    for text, of_models in models.items():
        programs = sorted(count for counts in of_models.values() for count in counts)
        measured = f", {programs[0]} to {programs[-1]} programs measured" if programs else ""
        names = f"{', '.join(of_models)}: m" if len(models) > 1 else "M"
        sentences.append(f"{names}easured with {text}{measured}.")
    return sentences


def errors(cells: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what went wrong, a line each."""
    found = [
        f"* {name}: {TITLES.get(row['engine'], row['engine'])}: {row['error']}"
        for name, cell in cells.items()
        for row in cell["rows"]
        if "error" in row
    ]
    return ["\n".join(found)] if found else []
