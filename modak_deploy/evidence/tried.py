"""What a job tried before its run and while it ran, as parts of its report."""

import statistics
from collections.abc import Iterator

from modak_deploy.evidence import values
from modak_deploy.evidence.marks import Mark
from modak_deploy.evidence.view import Intervals, Row, Value
from modak_deploy.model.job import JobResult, Settled, Trial, Tuning
from modak_deploy.model.plan import Plan
from modak_deploy.model.trials import RestartResult, RestartTrial
from modak_deploy.performance.trials import is_of
from modak_deploy.util.text import plural

SHOWN = 40
"""Candidates and trials in a table; the files beside the report have all of them."""
_NOTHING = ("there was nothing to try", "nothing could be tried", "the program ended before the trials did")
"""Reasons of the launcher's by which an object keeps the default on which nothing was tried to the end."""
_NOT_FASTER = "nothing tried is faster"
_LEGEND = "Dot: how many times as fast as the default. Upright line: the default."


def tried_gain(result: JobResult | None) -> tuple[str, float] | None:
    """Return what the trials of a job found, and how many times as fast as without it; None where they found nothing.

    Live trials compare with what restart trials chose, so that both gains count.
    """
    if result is None:
        return None
    winners: list[tuple[str, float]] = []
    restart = result.restart
    if restart is not None and restart.chosen is not None and restart.gain is not None and restart.gain > 1:
        winners.append((restart.chosen, restart.gain))
    settled = _went_on(result.tuning, whole=True) if result.tuning is not None else None
    if settled is not None and settled.levers and settled.gain is not None:
        winners.append((values.levers(settled.levers), settled.gain))
    if not winners:
        return None
    ratio = 1.0
    for _, gain in winners:
        ratio *= gain
    return " + ".join(name for name, _ in winners), ratio


def _went_on(tuning: Tuning, *, whole: bool = False) -> Settled | None:
    """Return with which levers the program went on, by the last word on each of its objects; None without any.

    What was settled may be given up later, as where its results differ in the end. Of several objects the one with
    the most time counts, of those that went on with levers; for the ``whole`` job it counts whether it did or not.
    """
    last: dict[str, Settled] = {}
    for settled in tuning.settled:
        if not _is_of_another(settled, last.get(settled.of)):
            last[settled.of] = settled

    def rank(settled: Settled) -> int:
        numbers = (number for number, counted in enumerate(tuning.counted) if is_of(counted, settled.of))
        return next(numbers, len(tuning.counted))

    ordered = sorted(last.values(), key=rank)
    main = next(iter(ordered), None)
    if main is None or (whole and rank(main) < len(tuning.counted)):
        return main
    return next((settled for settled in ordered if settled.levers), main)


def _is_of_another(settled: Settled, before: Settled | None) -> bool:
    """Tell whether it is the word on another object of the same name, such as a model that is evaluated after training.

    On that one nothing could be tried, or nothing was faster within fewer units: the one before did not give up for it.
    """
    if before is None or not before.levers or settled.levers:
        return False
    fewer = (settled.after_units or 0) < (before.after_units or 0)
    return settled.reason.startswith(_NOTHING) or (settled.reason == _NOT_FASTER and fewer)


def is_search(plan: Plan) -> bool:
    """Tell whether a job runs nothing but trials, as a part of a search."""
    return plan.restart is not None and plan.restart.only


def restart_trials(plan: Plan, result: JobResult | None) -> Intervals | None:
    """Return the starts of the program that were measured before its run."""
    restart = result.restart if result is not None else None
    if restart is None or not restart.trials:
        return None
    base = _base(plan, restart)
    ran = f" The program ran with {restart.chosen}: {restart.reason}." if restart.chosen is not None else ""
    ran = " The program itself did not run." if is_search(plan) else ran
    drift = ""
    if restart.drift is not None:
        change = values.percent(restart.drift - 1, signed=True)
        drift = f" The default's time changed by {change} while they ran."
    return Intervals(
        "What was tried before the run",
        f"{plural(len(restart.trials), 'start')} of the program, in {values.seconds(restart.seconds)}.{ran}{drift}",
        ("Candidate", "Gain", "Time of a unit", "Outcome"),
        [_restart_row(plan, restart, trial, base) for trial in restart.trials[:SHOWN]],
        reference=1.0,
        legend=_LEGEND,
        logarithmic=True,
    )


def live_trials(result: JobResult | None) -> Intervals | None:
    """Return what was tried while the program ran."""
    tuning = result.tuning if result is not None else None
    if tuning is None or not tuning.trials:
        return None
    settled = _went_on(tuning)
    went_on = f" The program went on with {values.levers(settled.levers)}: {settled.reason}." if settled else ""
    return Intervals(
        "What was tried while it ran",
        f"{len(tuning.trials)} trials on the job's own work.{went_on}",
        ("Levers", "Gain", "Time of a unit", "Outcome"),
        [_live_row(trial) for trial in tuning.trials[:SHOWN]],
        reference=1.0,
        legend=_LEGEND,
        logarithmic=True,
    )


def trial_values(name: str, result: JobResult) -> Iterator[Value]:
    """Yield the numbers of all trials for the CSV file; ``name`` is the job's."""
    restart = result.restart
    for start in restart.trials if restart is not None else ():
        yield Value(name, start.name, f"tried before the run: {start.state}", start.steady, unit="s", basis="trial")
    if restart is not None and restart.chosen is not None and restart.gain is not None:
        yield Value(name, restart.chosen, "tried before the run: gain", restart.gain, unit="x", basis="trial")
    for trial in result.tuning.trials if result.tuning is not None else ():
        levers = values.levers(trial.levers)
        yield Value(name, levers, "tried: time of a unit", trial.seconds, unit="s", basis="trial")
        yield Value(name, levers, "tried: gain", trial.gain, unit="x", basis="trial")
        if trial.background is not None:
            yield Value(name, levers, "tried: time in the background", trial.background, unit="s", basis="trial")


def _base(plan: Plan, restart: RestartResult) -> float | None:
    """Return the seconds of a unit with the configuration that the Plan chose, which all others are compared with."""
    own = [trial.steady for trial in restart.trials if trial.name == plan.chosen.name and trial.steady]
    return statistics.median(own) if own else None


def _restart_row(plan: Plan, restart: RestartResult, trial: RestartTrial, base: float | None) -> Row:
    failed, kept = trial.state not in ("measured", "beaten", "stopped"), trial.name == restart.chosen
    gain = base / trial.steady if base and trial.steady and not failed else None
    is_default = trial.name == plan.chosen.name
    label = f"{trial.name}, round {trial.round}" if trial.round > 1 else trial.name
    return Row(
        f"{label} (as planned)" if is_default else label,
        "refused" if failed else "-" if gain is None else values.times(gain),
        "" if trial.steady is None else values.seconds(trial.steady),
        trial.state if trial.reason == "-" else f"{trial.state}: {trial.reason}",
        Mark(gain, kind="chosen" if kept else ""),
        "bad" if failed else "chosen" if kept else "",
    )


def _live_row(trial: Trial) -> Row:
    emphasis = "bad" if trial.failed else "chosen" if trial.kept else ""
    gain = trial.gain if trial.gain else None
    state = "wrong or unusable: " if trial.failed else "kept: " if trial.kept else ""
    beside = "" if trial.background is None else f"; {values.seconds(trial.background)} in the background to make ready"
    return Row(
        values.levers(trial.levers) if trial.levers else "the default",
        "refused" if trial.failed else "-" if gain is None else values.times(gain),
        "" if trial.seconds is None else values.seconds(trial.seconds),
        f"{state}{trial.result}{beside}",
        Mark(None if trial.failed else gain, kind=emphasis),
        "bad" if trial.failed else "chosen" if trial.kept else "",
    )
