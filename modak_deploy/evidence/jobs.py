"""A deployed job as a section of a report: the decision, what it was worth, and where the time went."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.documents.jsontext import read_model
from modak_deploy.evidence import values
from modak_deploy.evidence.marks import Mark, divided
from modak_deploy.evidence.tried import SHOWN, is_search, live_trials, restart_trials, trial_values, tried_gain
from modak_deploy.evidence.view import Facts, Figure, Intervals, Part, Phase, Row, Section, Timeline, Tone, Value
from modak_deploy.model.job import Counted, JobResult
from modak_deploy.model.plan import Basis, Gain, Plan, Prediction
from modak_deploy.performance.recording import JOB, PLAN
from modak_deploy.util.text import plural

_REJECTED = 200

CERTAINTY: Mapping[Basis, tuple[str, str]] = {
    "measurement": ("Measured", "whole runs of this work were measured on this hardware"),
    "trial": ("Tried", "units of this work were timed while an earlier job ran"),
    "model": ("Modelled", "the performance model predicts it; this work was not measured here"),
    "modelled": (
        "Scaled",
        "measured on other hardware; the catalogue's figures of both say how much faster or slower this one may be",
    ),
    "rule": ("Carried over", "a ratio that was measured elsewhere, widened for every difference"),
    "none": ("Unknown", "nothing is known of how long this work takes"),
}
"""How certain a prediction is, by what it rests on."""


@dataclass(frozen=True)
class DeployedJob:
    """A results folder: the Plan and, where the job has ended, its result."""

    folder: Path
    plan: Plan
    result: JobResult | None


def read_job(folder: Path) -> DeployedJob:
    """Return what lies in the results folder of one run; InputError names the file and what is wrong with it."""
    plan, result = read_model(folder / PLAN, Plan), folder / JOB
    return DeployedJob(folder, plan, read_model(result, JobResult) if result.is_file() else None)


def job_section(job: DeployedJob) -> Section:
    """Return everything that a report says of a job."""
    parts: list[Part | None] = [
        _timeline(job),
        _candidates(job),
        restart_trials(job.plan, job.result),
        live_trials(job.result),
        _counted(job),
        _why(job),
        _rejected(job.plan),
        _identity(job),
    ]
    return Section(
        title=f"{job.plan.name} on {job.plan.target.name}",
        answer=answer(job),
        figures=list(_figures(job)),
        parts=[part for part in parts if part is not None],
    )


def answer(job: DeployedJob) -> str:
    """Return the decision and what became of it in one or two sentences."""
    plan, result = job.plan, job.result
    settled = tried_gain(result) if result is not None and result.state == "completed" else None
    if is_search(plan):
        text = (
            f"The job tried what may be faster than {plan.chosen.name}, for a search; the program itself did not run."
        )
    elif plan.chosen.name == plan.default and settled is not None:
        levers, ratio = settled
        text = (
            f"modak began with the default, {plan.chosen.name}, and went on with {levers}, {ratio:.2f} times as fast."
        )
    elif plan.chosen.name == plan.default:
        text = f"modak kept the default, {plan.chosen.name}."
    else:
        gain = plan.gain or plan.prediction.gain
        expected = f", expected to be {_gain_text(gain)} as fast as the default" if gain else ""
        on = f", and went on with {settled[0]}, {settled[1]:.2f} times as fast as that" if settled is not None else ""
        text = f"modak chose {plan.chosen.name}{expected}{on}."
    if result is None:
        return f"{text} The job has not ended, or its results were not fetched."
    if result.state != "completed":
        return f"{text} The job did not complete: {result.state.replace('_', ' ')}{_reason(result)}."
    took = f" It took {_took(result)}" if result.seconds is not None else " It completed"
    inside = _is_inside(plan.prediction, _ran(job))
    judged = {True: ", as predicted", False: f", outside the predicted {_between(plan.prediction)}", None: ""}[inside]
    return f"{text}{took}{judged}."


def job_values(job: DeployedJob) -> Iterator[Value]:
    """Yield the job's numbers for the CSV file."""
    plan, result, name = job.plan, job.result, f"job {job.plan.name} on {job.plan.target.name}"
    yield Value(name, plan.chosen.name, "chosen", "yes" if plan.chosen.name != plan.default else "default")
    for candidate, prediction in _ranked(plan):
        basis = prediction.basis
        if prediction.seconds is not None:
            yield Value(
                name, candidate, "predicted time", prediction.seconds, prediction.low, prediction.high, "s", basis
            )
        if prediction.gain is not None:
            gain = prediction.gain
            yield Value(name, candidate, "predicted gain", gain.ratio, gain.low, gain.high, "x", basis)
    if result is None:
        return
    yield from trial_values(name, result)
    yield Value(name, plan.chosen.name, "end", result.state)
    tried = result.restart.seconds if result.restart is not None else None
    times = (
        ("measured time", result.seconds),
        ("time of trials before the run", tried),
        ("time in the queue", _queued(result)),
    )
    for quantity, seconds in times:
        if seconds is not None:
            yield Value(name, plan.chosen.name, quantity, seconds, unit="s", basis="measurement")
    tuning = result.tuning
    if tuning is None:
        return
    if tuning.peak_memory is not None:
        yield Value(name, plan.chosen.name, "peak memory", tuning.peak_memory, unit="B", basis="measurement")
    for counted in tuning.counted:
        for quantity in ("units", "start", "compile", "steady"):
            unit = counted.unit if quantity == "units" else "s"
            yield Value(name, counted.name, quantity, getattr(counted, quantity), unit=unit, basis="measurement")


def _ranked(plan: Plan) -> list[tuple[str, Prediction]]:
    others = [(ranked.candidate.name, ranked.prediction) for ranked in plan.alternatives]
    return [(plan.chosen.name, plan.prediction), *others]


def _figures(job: DeployedJob) -> Iterator[Figure]:
    plan, result = job.plan, job.result
    kept = plan.chosen.name == plan.default
    yield Figure("Chosen", plan.chosen.name, "the default" if kept else f"in place of {plan.default}")
    gain = plan.gain or plan.prediction.gain
    settled = None if is_search(plan) else tried_gain(result)
    if is_search(plan):
        yield Figure("Gain", "unknown", "the program itself did not run")
    elif settled is not None and kept:
        yield _tried_figure("Gain", settled, "")
    elif kept or gain is None:
        why = "the default runs, so nothing can be lost" if kept else "no comparison is known"
        yield Figure("Gain", values.times(1.0) if kept else "unknown", why)
    else:
        tone: Tone = "good" if gain.low > 1 else "bad" if gain.high < 1 else ""
        yield Figure("Gain", values.times(gain.ratio), f"between {gain.low:.2f} and {gain.high:.2f}", tone)
    if settled is not None and not kept:  # what trials gained is over what was chosen, and that over the default
        yield _tried_figure("Gain by trials", settled, f" over {plan.chosen.name}")
    label, note = CERTAINTY[plan.prediction.basis]
    yield Figure("How certain", label, note)
    if result is None:
        yield Figure("Predicted", values.seconds(plan.prediction.seconds), _between(plan.prediction))
        return
    inside = _is_inside(plan.prediction, _ran(job))
    end: Tone = "bad" if result.state != "completed" else "" if inside is None else "good" if inside else "bad"
    took = values.seconds(result.seconds) if result.state == "completed" else result.state.replace("_", " ")
    yield Figure("Took", took, _note(job), end)


def _tried_figure(label: str, settled: tuple[str, float], over: str) -> Figure:
    levers, ratio = settled
    return Figure(label, values.times(ratio), f"tried while the job ran{over}: {levers}", "good" if ratio > 1 else "")


def _note(job: DeployedJob) -> str:
    """Return what was predicted, and what of the time was none of the run that this was predicted of."""
    plan, result = job.plan, job.result
    if plan.prediction.seconds is None:
        return "no time was predicted"
    note = f"predicted {values.seconds(plan.prediction.seconds)}"
    if plan.prediction.low is not None:
        note += f", {_between(plan.prediction)}"
    if _ran_otherwise(job):
        note += f", for {plan.chosen.name}, which did not run"
    return note + (f"; {text}" if result is not None and (text := _trials_text(result)) else "")


def _took(result: JobResult) -> str:
    text = _trials_text(result)
    return values.seconds(result.seconds) + (f" ({text})" if text else "")


def _trials_text(result: JobResult) -> str:
    """Return how much of a job's time trials before its run took; empty without any."""
    if result.restart is None or result.restart.seconds <= 0:
        return ""
    return f"trials before the run took {values.seconds(result.restart.seconds)} of it"


def _ran(job: DeployedJob) -> float | None:
    """Return the seconds of the run that was predicted, without what was tried before it.

    None where it was not made: of trials alone, or where these chose something else.
    """
    result = job.result
    if result is None or result.state != "completed" or result.seconds is None:
        return None
    if result.restart is None:
        return result.seconds
    return None if _ran_otherwise(job) else max(result.seconds - result.restart.seconds, 0.0)


def _ran_otherwise(job: DeployedJob) -> bool:
    """Return whether a job ran nothing but trials, or what these chose in place of what was predicted."""
    plan, restart = job.plan, job.result.restart if job.result is not None else None
    return restart is not None and (is_search(plan) or restart.chosen not in (None, plan.chosen.name))


def _timeline(job: DeployedJob) -> Timeline | None:
    result = job.result
    if result is None or not result.seconds:
        return None
    queued = _queued(result)
    phases = [] if queued is None else [Phase("Queue", "queue", queued, values.seconds(queued))]
    before = None
    if result.started is not None and result.ended is not None:
        before = max(result.ended - result.started - result.seconds, 0.0)
        phases.append(Phase("Job set-up and end", "around", before, values.seconds(before)))
    main = result.tuning.counted[0] if result.tuning is not None and result.tuning.counted else None
    tried = min(result.restart.seconds, result.seconds) if result.restart is not None else 0.0
    phases.append(Phase("Trials before the run", "trials", tried, values.seconds(tried)))
    phases += _inner(main, result.seconds - tried)
    phases = [phase for phase in phases if phase.share > 0]
    whole = values.seconds(sum(phase.share for phase in phases))
    remark = "" if main is not None else " The launcher counted no units, so its inside is not divided."
    background = _background(result)
    if background > 0:
        remark += f" Beside it, {values.seconds(background)} went into making levers ready in the background."
    return Timeline(
        "Where the time went",
        f"{whole} from submission to end; the application itself {values.seconds(result.seconds - tried)}.{remark}",
        divided([(phase.kind, phase.share) for phase in phases]),
        phases,
    )


def _background(result: JobResult) -> float:
    """Return the seconds in which levers were made ready while the program went on."""
    return sum(trial.background or 0.0 for trial in result.tuning.trials) if result.tuning is not None else 0.0


def _inner(main: Counted | None, seconds: float) -> list[Phase]:
    """Return the phases of the application itself."""
    if main is None or main.start is None or main.steady is None:
        return [Phase("Application", "steady", seconds, values.seconds(seconds))]
    start = min(main.start, seconds)
    compiled = min(main.compile or 0.0, seconds - start)
    steady = min(max((main.elapsed or main.seconds) - compiled, 0.0), seconds - start - compiled)
    rest = seconds - start - compiled - steady
    unit = f"{main.units} {values.TIMES} {values.seconds(main.steady)}"
    return [
        Phase("Start", "start", start, values.seconds(start)),
        Phase("Compile and warm up", "compile", compiled, values.seconds(compiled)),
        Phase("Steady work", "steady", steady, f"{values.seconds(steady)} ({unit})"),
        Phase("Rest", "rest", rest, values.seconds(rest)),
    ]


def _queued(result: JobResult) -> float | None:
    if result.submitted is None or result.started is None:
        return None
    return max(result.started - result.submitted, 0.0)


def _candidates(job: DeployedJob) -> Intervals | None:
    plan = job.plan
    ranked = _ranked(plan)
    if len(ranked) < 2:
        return None
    timed = all(prediction.seconds is not None for _, prediction in ranked[:SHOWN])
    rows = [_candidate_row(job, name, prediction, timed=timed) for name, prediction in ranked[:SHOWN]]
    more = f" The Plan has {len(ranked) - SHOWN} more." if len(ranked) > SHOWN else ""
    took = _ran(job) is not None
    return Intervals(
        "What could have run",
        f"{len(ranked)} ways to run the job were feasible. The chosen one stands first, then the fastest.{more}",
        ("Candidate", "Predicted time" if timed else "Gain", "Interval", "Rests on"),
        rows,
        reference=None if timed else 1.0,
        legend="Dot: prediction. Line: its interval." + (" Bar across: what the run took." if took and timed else ""),
        logarithmic=not timed,
        zero=timed,
    )


def _candidate_row(job: DeployedJob, name: str, prediction: Prediction, *, timed: bool) -> Row:
    plan = job.plan
    is_chosen = name == plan.chosen.name
    note = CERTAINTY[prediction.basis][0].lower() + (", default" if name == plan.default else "")
    if timed:
        measured = _ran(job) if is_chosen else None
        mark = Mark(prediction.seconds, prediction.low, prediction.high, measured, "chosen" if is_chosen else "")
        text, between = values.seconds(prediction.seconds), _between(prediction)
    else:
        gain = prediction.gain or (Gain(ratio=1.0, low=1.0, high=1.0) if name == plan.default else None)
        mark = (
            Mark(None) if gain is None else Mark(gain.ratio, gain.low, gain.high, None, "chosen" if is_chosen else "")
        )
        text = "unknown" if gain is None else values.times(gain.ratio)
        between = "" if gain is None or name == plan.default else values.between(gain.low, gain.high)
    label = f"{name} (chosen)" if is_chosen else name
    return Row(label, text, between, note, mark, "chosen" if is_chosen else "")


def _counted(job: DeployedJob) -> Facts | None:
    tuning = job.result.tuning if job.result is not None else None
    if tuning is None:
        return None
    items: list[tuple[str, str]] = []
    for counted in tuning.counted[:5]:
        items.append((counted.name, _rate(counted, job.plan)))
    if tuning.peak_memory is not None:
        items.append(("Most memory used", values.size(tuning.peak_memory)))
    items += [("Not used", sentence) for sentence in [*tuning.not_used[:10], *tuning.incomplete[:5]]]
    return Facts("Rate and memory", items) if items else None


def _rate(counted: Counted, plan: Plan) -> str:
    text = plural(counted.units, counted.unit)
    if counted.steady:
        text += f", {values.number(1 / counted.steady)} a second once warm ({values.seconds(counted.steady)} each)"
        if plan.application.workload.batch:
            text += f", {values.number(plan.application.workload.batch / counted.steady)} samples a second"
    return text if counted.loss is None else f"{text}; last loss {counted.loss:.4g}"


def _why(job: DeployedJob) -> Facts:
    plan = job.plan
    chosen = plan.chosen
    items = [("Reason", values.sentence(plan.reason)), ("Prediction rests on", plan.prediction.evidence or "nothing")]
    if chosen.image is not None:
        items.append(("Image", f"{chosen.image.reference}, run by {chosen.runtime}"))
    if chosen.levers:
        items.append(("Levers", values.levers(chosen.levers)))
    if chosen.environment:
        items.append(("Sets", "  ".join(f"{name}={value}" for name, value in sorted(chosen.environment.items()))))
    if chosen.preload:
        items.append(("Preloads", " ".join(chosen.preload)))
    items += [(f"Not on {other.target.name}", other.reason) for other in plan.other_targets]
    return Facts("Why", items)


def _rejected(plan: Plan) -> Facts | None:
    if not plan.rejected:
        return None
    items = [(rejected.name, rejected.reason) for rejected in plan.rejected[:_REJECTED]]
    more = len(plan.rejected) - _REJECTED
    if more > 0:
        items.append(("And more", f"{more} others; the Plan has all of them"))
    return Facts(f"Rejected candidates ({len(plan.rejected)})", items, folded=True)


def _identity(job: DeployedJob) -> Facts:
    plan, result = job.plan, job.result
    versions = plan.versions
    items = [("Plan", f"{plan.tag()}, made {plan.created}"), ("Scheduler", plan.scheduler)]
    if result is not None:
        items += [("Job", f"{result.id}, attempt {result.attempt}, {result.state.replace('_', ' ')}{_reason(result)}")]
        items += [("Node", result.host)] if result.host else []
    items.append(("Decided by", f"modak {versions.modak}, catalogue {versions.catalogue[:12]}"))
    items.append(("Measurements", versions.measurements[:12]))
    return Facts("Identity", items, folded=True)


def _reason(result: JobResult) -> str:
    return f" ({result.reason})" if result.reason else ""


def _gain_text(gain: Gain) -> str:
    return f"{gain.ratio:.2f} times ({gain.low:.2f} to {gain.high:.2f})"


def _between(prediction: Prediction) -> str:
    if prediction.low is None or prediction.high is None:
        return "no interval"
    return f"{values.seconds(prediction.low)} to {values.seconds(prediction.high)}"


def _is_inside(prediction: Prediction, seconds: float | None) -> bool | None:
    """Return whether a time lies in the predicted interval; None where either is not known."""
    if seconds is None or prediction.seconds is None or prediction.low is None or prediction.high is None:
        return None
    return prediction.low <= seconds <= prediction.high
