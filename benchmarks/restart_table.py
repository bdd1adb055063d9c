"""What restart trials cost and bring: first deployments with live trials alone and with both kinds, and second ones."""

import math
import statistics
from collections.abc import Sequence

from markdown_table import markdown
from program_table import Line, ended_with

MINUTES = (5, 20)
ARMS = {"live": "live-exact", "both": "both-exact", "second": "second-exact"}


def restarts(lines: Sequence[Line]) -> str:
    """Return the table of the programs that were deployed with both kinds of trials."""
    head = ["program", *(f"{name}, {minutes} min" for minutes in MINUTES for name in ARMS)]
    rows: list[tuple[str, ...]] = [(*head, "restart trials, s", "chosen by them", "second ran with", "regret")]
    gains: dict[str, list[float]] = {}
    regrets = []
    for line in lines:
        if not (line.of("both-exact") and line.of("second-exact")):
            continue
        cells = [line.name]
        for minutes in MINUTES:
            for name, arm in ARMS.items():
                found = line.gain(arm, minutes)
                cells.append("-" if found is None else f"{found[0]:.2f}")
                if found is not None:
                    gains.setdefault(f"{name}, {minutes} min", []).append(found[0])
        both, second = line.of("both-exact")[-1], line.of("second-exact")[-1]
        regret = line.regret("exact")
        regrets += [] if regret is None else [regret]
        chosen = (both["restart"] or {}).get("chosen") or "-"
        shown = "-" if regret is None else f"{regret:.0%}"
        rows.append((*cells, f"{both['trials_before']:.0f}", chosen, "+".join(ended_with(second)) or "as-is", shown))
    means = [f"**{math.exp(statistics.fmean(map(math.log, gains[name]))):.2f}**" for name in head[1:]]
    worst = [f"**{min(gains[name]):.2f}**" for name in head[1:]]
    rows.append(("geometric mean", *means, "", "", "", f"**{statistics.median(regrets):.0%}** (median)"))
    rows.append(("worst", *worst, "", "", "", f"**{max(regrets):.0%}**"))
    return markdown(rows)
