"""Judge what deployments chose by the surveys that ship, without measuring anything: chosen_table.py PROGRAMS.jsonl.

``PROGRAMS.jsonl`` has the results of ``programs.py``. What its first and second deployments ended with is looked up in
the surveys of the same programs on the same kind of machine, where all sets of levers did units in turns: that tells
more than the times of whole jobs, between which the machine's speed changes. Beside it stands how long the jobs took.
"""

import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import program_table
import survey
import survey_choice
import survey_table
from markdown_table import markdown

from modak_deploy.model.measurement import Measurement

Entry = Mapping[str, Any]
ARMS = ("live-exact", "second-exact")


def surveyed(path: Path, chosen: Mapping[tuple[str, str], Sequence[str]]) -> list[Entry]:
    """Return the shipped surveys' exact sets of the programs that were deployed, as lines of ``survey.py``."""
    deployed = {name for name, _ in chosen}
    return [
        line
        for name, records in survey_choice.programs_in(path).items()
        if name in deployed
        for line in _lines(name, records, {arm: levers for (row, arm), levers in chosen.items() if row == name})
    ]


def _lines(name: str, records: Sequence[Measurement], chosen: Mapping[str, Sequence[str]]) -> Iterable[Entry]:
    lines = []
    for record in records:
        if not program_table.is_exact(record.configuration.levers):
            continue
        levers = [lever for lever in record.configuration.levers if lever in program_table.LIVE]
        lines.append({
            "row": name, "kind": str(record.type).removeprefix("ai_"), "numerics": "exact", "levers": levers,
            **survey_choice.rounds_of(record),
            "chosen": sorted(arm for arm, other in chosen.items() if set(other) == set(levers)),
        })  # fmt: skip
    default = next(line for line in lines if not line["levers"])
    for line in lines:
        ratios = [survey_table.ratio(default, line, half) for half in (0, 1)]
        line["gain"] = statistics.geometric_mean(ratios) if all(ratios) else 1.0
    return lines


def table(entries: Sequence[Entry], records: Path = survey_choice.RECORDS) -> str:
    """Return the table of what was chosen, and one of how long the jobs took."""
    return choices(entries, records) + "\n" + jobs(entries)


def choices(entries: Sequence[Entry], records: Path = survey_choice.RECORDS) -> str:
    """Return the table of what was chosen."""
    return survey_table.table(surveyed(records, survey.chosen_in(entries)))


@dataclass(frozen=True)
class Jobs:
    """The first and the second job of a program beside its default."""

    name: str
    kind: str
    by_default: float
    """Seconds that as many units take by default, as two short jobs tell."""
    seconds: Mapping[str, float]
    errors: Mapping[str, float]
    """By how much the forecasts missed, of the jobs that made one."""


def jobs_of(entries: Sequence[Entry]) -> Iterator[Jobs]:
    """Yield the programs of which both jobs and the default have ended well."""
    for name in dict.fromkeys(entry["row"] for entry in entries):
        own = [entry for entry in entries if entry["row"] == name and entry["state"] == "completed"]
        defaults = [entry for entry in own if entry["arm"] == "default"]
        jobs = {entry["arm"]: entry for entry in own if entry["arm"] in ARMS}
        if not defaults or set(jobs) != set(ARMS):
            continue
        units = jobs[ARMS[0]]["units"]
        by_default = statistics.fmean(program_table.total(entry, units) for entry in defaults)
        seconds = {arm: float(jobs[arm]["total"]) for arm in ARMS}
        errors = {arm: jobs[arm]["forecast"] / seconds[arm] - 1 for arm in ARMS if jobs[arm].get("forecast")}
        yield Jobs(name, str(defaults[0]["kind"]), by_default, seconds, errors)


def jobs(entries: Sequence[Entry]) -> str:
    """Return how long the jobs took, beside as many units of the default, with the forecasts."""
    head = ("program", "by default, s", "first, s", "second, s", "first", "second", "forecast, first", "second")
    lines: list[Sequence[str]] = [head]
    factors: dict[str, list[float]] = {arm: [] for arm in ARMS}
    missed: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for one in jobs_of(entries):
        for arm in ARMS:
            factors[arm].append(one.by_default / one.seconds[arm])
            missed[arm] += [abs(one.errors[arm])] if arm in one.errors else []
        times = (f"{one.seconds[arm]:.1f}" for arm in ARMS)
        gained = (f"{one.by_default / one.seconds[arm]:.2f}" for arm in ARMS)
        forecasts = (f"{one.errors[arm]:+.1%}" if arm in one.errors else "-" for arm in ARMS)
        lines.append((one.name, f"~{one.by_default:.1f}", *times, *gained, *forecasts))
    if len(lines) > 1:
        means = (f"**{statistics.geometric_mean(each):.2f}**" for each in factors.values())
        medians = (f"**{statistics.median(each):.1%}**" if each else "-" for each in missed.values())
        lines.append(("geometric mean, median error", "", "", "", *means, *medians))
    return markdown(lines)


if __name__ == "__main__":
    print(table(survey_table.read(Path(sys.argv[1]))), end="")
