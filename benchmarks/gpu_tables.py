"""The tables of a GPU: what levers gain on networks alone (lever_table.py), and programs as deployed (programs.py)."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from markdown_table import markdown
from program_table import Line, ended_with, total


def levers(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the gains of sets of levers, one column for each case; the best of each kind with its geometric mean."""
    cases = [result["case"] for result in results]
    gains: dict[tuple[str, ...], dict[str, float]] = {}
    exact: dict[tuple[str, ...], bool] = {}
    for result in results:
        for row in result["rows"]:
            gains.setdefault(tuple(row["levers"]), {})[result["case"]] = row["gain"]
            exact[tuple(row["levers"])] = row["exact"]
    default = {result["case"]: result["rows"][0]["seconds"] for result in results}
    rows: list[Sequence[str]] = [("levers", *cases, "numerics")]
    rows.append(("default, ms", *(f"{1000 * default[case]:.3g}" for case in cases), ""))
    for names in sorted(gains, key=lambda names: statistics.fmean(gains[names].values())):
        if names:
            shown = ", ".join(name.removeprefix("pytorch-") for name in names)
            cells = [f"{gains[names][case]:.2f}" if case in gains[names] else "-" for case in cases]
            rows.append((shown, *cells, "exact" if exact[names] else "relaxed"))
    for numerics in ("exact", "relaxed"):
        permitted = [of for names, of in gains.items() if exact[names] or numerics == "relaxed"]
        best = [max(of[case] for of in permitted if case in of) for case in cases]
        mean = math.exp(statistics.fmean(map(math.log, best)))
        rows.append((f"**best {numerics}**, mean **{mean:.2f}**", *(f"**{gain:.2f}**" for gain in best), numerics))
    return markdown(rows)


def programs(lines: Sequence[Line]) -> str:
    """Return what first deployments with live trials made of programs, and second ones."""
    head = ("program", "default, ms", "first, ms", "gain", "as the default, s", "first deployment, s", "went on with")
    rows: list[Sequence[str]] = [(*head, "second, ms")]
    gains = []
    for line in lines:
        first, second = line.of("live-relaxed"), line.of("second-relaxed")
        default = line.steady("default")
        if not first or default is None:
            continue
        run = first[-1]
        gains.append(default / run["steady"])
        alone = statistics.median(total(one, run["units"], line.between) for one in line.of("default"))
        name = ", ".join(one.removeprefix("pytorch-") for one in ended_with(run))
        cells = [f"{1000 * default:.3g}", f"{1000 * run['steady']:.3g}", f"{gains[-1]:.2f}", f"~{alone:.0f}"]
        after = f"{1000 * second[-1]['steady']:.3g}" if second else "-"
        rows.append((line.name.removeprefix("gpu-"), *cells, f"{run['total']:.0f}", name or "default", after))
    mean = math.exp(statistics.fmean(map(math.log, gains)))
    rows.append(("geometric mean", "", "", f"**{mean:.2f}**", "", "", "", ""))
    return markdown(rows)
