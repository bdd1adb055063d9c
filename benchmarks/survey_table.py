"""The table of what modak chose beside the fastest of all sets of live levers, measured in turns."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_table import markdown
from program_rows import Row

Entry = Mapping[str, Any]
FEWEST = 6
"""Rounds of a set at least, for it to be the fastest or to be judged."""


def read(path: Path) -> list[Any]:
    """Return the lines of a file of results."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def lines_of(row: Row, numerics: str, events: Iterable[Entry], chosen: Mapping[str, Sequence[str]]) -> list[Entry]:
    """Return the results of a program's survey: a line for each set, with the deployments that ended with it.

    Of a program with several objects that was the one on which most time was spent.
    """
    objects: dict[str, list[Entry]] = {}
    for event in events:
        if event.get("event") == "surveyed":
            objects.setdefault(str(event["of"]), []).append(event)
    if not objects:
        return []
    sets = max(objects.values(), key=lambda entries: sum(sum(entry["times"]) for entry in entries))
    kept = ("of", "levers", "gain", "rounds", "times", "before", "once", "difference")
    return [
        {
            "row": row.name,
            "kind": row.kind,
            "numerics": numerics,
            **{key: entry[key] for key in kept if key in entry},
            "chosen": sorted(arm for arm, levers in chosen.items() if set(levers) == set(entry["levers"])),
        }
        for entry in sets
    ]


def regret_of(entries: Sequence[Entry], arm: str) -> float | None:
    """Return how much slower than the fastest set that is what a kind of deployment ended with; None where unknown.

    The fastest is chosen by every other round and compared in those between, and the same the other way round: of many
    sets that are as fast as each other one is the fastest by chance in the rounds that it is chosen by.
    """
    own = next((entry for entry in entries if arm in entry["chosen"]), None)
    default = next((entry for entry in entries if not entry["levers"]), None)
    measured = [entry for entry in entries if len(entry["rounds"]) >= FEWEST]
    if own is None or default is None or own not in measured:
        return None
    halves = []
    for half in (0, 1):
        best = max(measured, key=lambda entry: ratio(default, entry, half))
        halves.append(ratio(own, best, 1 - half) - 1)
    return statistics.fmean(halves)


def ratio(slower: Entry, faster: Entry, half: int) -> float:
    """Return the median over one half of the rounds that two sets share of the first one's time by the second one's."""
    times = dict(zip(slower["rounds"], slower["times"], strict=True))
    pairs = [(times[number], seconds) for number, seconds in zip(faster["rounds"], faster["times"], strict=True)
             if number in times and number % 2 == half]  # fmt: skip
    return statistics.median(one / other for one, other in pairs) if pairs else 0.0


@dataclass(frozen=True)
class Judged:
    """What was chosen in a program's deployments beside the fastest set; None where it was not surveyed."""

    kind: str
    gains: tuple[float | None, ...]
    """Of a first deployment, a second one, and the fastest set."""
    regrets: tuple[float | None, ...]


def table(entries: Sequence[Entry]) -> str:
    """Return the table, a line for each program, with geometric means of gains and the median of regrets."""
    numerics = entries[0]["numerics"]
    arms = (f"live-{numerics}", f"second-{numerics}")
    head = ("program", "sets", "default, ms", "first", "second", "fastest", "its levers", "regret, first", "second")
    lines: list[Sequence[str]] = [head]
    judged: list[Judged] = []
    for name in dict.fromkeys(entry["row"] for entry in entries):
        own = [entry for entry in entries if entry["row"] == name]
        default = next(entry for entry in own if not entry["levers"])
        milliseconds = f"{1e3 * statistics.median(default['times']):.3g}"
        measured = [entry for entry in own if entry["levers"] and len(entry["rounds"]) >= FEWEST]
        if not measured:
            rounds = max(len(entry["rounds"]) for entry in own)
            lines.append((name, str(len(own)), milliseconds, "-", "-", "-", f"too few rounds: {rounds}", "-", "-"))
            continue
        best = max([default, *measured], key=lambda entry: float(entry["gain"]))
        chosen = [next((float(entry["gain"]) for entry in own if arm in entry["chosen"]), None) for arm in arms]
        one = Judged(own[0]["kind"], (*chosen, float(best["gain"])), tuple(regret_of(own, arm) for arm in arms))
        levers = " + ".join(best["levers"]) or "default"
        lines.append((name, str(len(own)), milliseconds, *map(_factor, one.gains), levers, *map(_share, one.regrets)))
        judged.append(one)
    kinds = [kind for kind in ("inference", "training") if any(one.kind == kind for one in judged)]
    lines += [_middle(kind, [one for one in judged if one.kind == kind]) for kind in kinds]
    lines.append(_middle("all", judged))
    worst = (max((value for value in values if value is not None), default=None) for values in _columns(judged))
    lines.append(("worst", *[""] * 6, *map(_share, worst)))
    return markdown(lines)


def _columns(judged: Sequence[Judged]) -> list[tuple[float | None, ...]]:
    return list(zip(*(one.regrets for one in judged), strict=True)) or [(), ()]


def _middle(name: str, judged: Sequence[Judged]) -> Sequence[str]:
    gains = zip(*(one.gains for one in judged), strict=True)
    means = [f"**{_factor(_geometric([gain for gain in values if gain is not None]))}**" for values in gains]
    present = [[value for value in values if value is not None] for values in _columns(judged)]
    medians = [f"**{_share(statistics.median(values) if values else None)}**" for values in present]
    return (f"geometric mean, median: {name}", "", "", *(means or ["-"] * 3), "", *medians)


def _geometric(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
