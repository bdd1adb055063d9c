"""What deployments would choose after a survey, and how far that is from the fastest set: survey_choice.py [RECORDS].

The surveys are measurements with a run for each round. What every other round measured is all that a store knows, the
optimiser's own code chooses by it for a job that takes the default twenty minutes, and the rounds between judge: how
many times as fast as the default the chosen set is there, and how much slower than the one that was the fastest in the
rounds that were known. Then the same the other way round.
"""

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import survey_table
from markdown_table import markdown

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement
from modak_deploy.optimiser.candidates import Choice
from modak_deploy.optimiser.decision import decide
from modak_deploy.optimiser.evaluating import location_of_row, work_of_row
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.knowledge import Knowledge
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.records import Table

RECORDS = (
    Path(__file__).resolve().parent.parent
    / "modak_deploy/catalogue/data/measurements/survey-amd-epyc-avx2-2-cores.jsonl"
)
SECONDS = 1200.0
"""Seconds that the job takes with the default."""
Levers = tuple[str, ...]


def programs_in(path: Path) -> dict[str, list[Measurement]]:
    """Return the measurements of each program."""
    programs: dict[str, list[Measurement]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = Measurement.model_validate_json(line)
        programs.setdefault(str(record.workload.model).removeprefix("program-"), []).append(record)
    return programs


def rounds_of(record: Measurement) -> dict[str, Any]:
    """Return the rounds in which a set had a turn, and the seconds of a unit in each."""
    runs = sorted(record.runs, key=lambda run: run.block or 0)
    return {"rounds": [run.block for run in runs], "times": [run.later[0] for run in runs]}


@dataclass(frozen=True)
class Chosen:
    """What is chosen by one half of the rounds, and what it is in the other half."""

    levers: Levers
    gain: float
    regret: float


def choose(half: Sequence[Measurement], catalogue: Catalogue) -> Levers:
    """Return the levers that are chosen for a job of ``SECONDS`` by these measurements of its workload alone."""
    rows = sorted(rows_of(half, catalogue), key=lambda row: len(row.case.configuration.levers))
    units = max(1, round(SECONDS / rows[0].seconds["steady"]))
    work = work_of_row(rows[0], units)
    location = location_of_row(rows[0], catalogue)
    options = [location.option(tuple(row.case.configuration.levers)) for row in rows]
    evidence = Evidence(Table(half).of_workload(str(work.workload.model)), work, [location])
    application = Application(name="surveyed", executable="true", workload=work.workload)
    decision = decide(
        Choice(options[0], options[0], options), Knowledge(evidence, None), Deployment(application=application)
    )
    return decision.chosen.levers


def judged(records: Sequence[Measurement], catalogue: Catalogue) -> Iterator[Chosen]:
    """Yield what is chosen by either half of the rounds of one survey; nothing where it has too few."""
    entries: dict[Levers, dict[str, Any]] = {}
    for record in records:
        entries[tuple(record.configuration.levers)] = rounds_of(record)
    base = entries[min(entries, key=len)]
    measured = {levers: entry for levers, entry in entries.items() if len(entry["rounds"]) >= survey_table.FEWEST}
    if len(measured) < 2:
        return
    for half in (0, 1):
        chosen = choose(list(_half(records, half)), catalogue)
        best = max(measured, key=lambda levers: survey_table.ratio(base, measured[levers], half))
        regret = survey_table.ratio(entries[chosen], measured[best], 1 - half) - 1
        yield Chosen(chosen, survey_table.ratio(base, entries[chosen], 1 - half), regret)


def _half(records: Sequence[Measurement], half: int) -> Iterator[Measurement]:
    for record in records:
        runs = [run for run in record.runs if run.block is not None and run.block % 2 == half]
        if runs:
            yield record.model_copy(update={"runs": runs})


def table(path: Path) -> str:
    """Return the table: a line for each program, and means over them."""
    catalogue = load_catalogue()
    lines: list[Sequence[str]] = [("program", "sets", "rounds", "chosen by every other round", "gain", "regret")]
    kinds: dict[str, list[tuple[float, float]]] = {}
    for name, records in programs_in(path).items():
        found = list(judged(records, catalogue))
        rounds = max(len(record.runs) for record in records)
        head = (name, str(len(records)), str(rounds))
        if not found:
            lines.append((*head, "too few rounds", "-", "-"))
            continue
        gain = statistics.geometric_mean([one.gain for one in found])
        regret = statistics.fmean(one.regret for one in found)
        kinds.setdefault(str(records[0].type).removeprefix("ai_"), []).append((gain, regret))
        names = "; ".join(dict.fromkeys(" + ".join(one.levers) or "default" for one in found))
        lines.append((*head, names, f"{gain:.2f}", f"{regret:.1%}"))
    every = [pair for pairs in kinds.values() for pair in pairs]
    for kind, pairs in [*sorted(kinds.items()), ("all", every)]:
        gain = statistics.geometric_mean([gain for gain, _ in pairs])
        regret = statistics.median(regret for _, regret in pairs)
        lines.append((f"geometric mean, median: {kind}", "", "", "", f"**{gain:.2f}**", f"**{regret:.1%}**"))
    regrets = [regret for _, regret in every]
    lines.append(("mean and worst", "", "", "", "", f"{statistics.fmean(regrets):.1%}, {max(regrets):.1%}"))
    return markdown(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1]) if sys.argv[1:] else RECORDS), end="")
