"""From what a job tried while it ran to measurements: one of each configuration, the default included."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.job import GIVEN_UP, NOT_TRIED, ROUNDS, SLOWER_AT_FIRST, Counted, JobResult, Trial, Tuning
from modak_deploy.model.measurement import Measurement, Run
from modak_deploy.model.plan import Plan

METHOD = "Units of a deployed job that tried levers while it ran; start and end are the job's own."
BLOCK = 1000
"""Numbers of blocks for each trial."""
CLOCKS = 1.0
"""Seconds by which the clocks of the job's shell and of the program may differ."""
DEAR = 1.0
"""Seconds to make a lever ready, from which it is not tried before others again where its first unit was slow."""
TRANSIENT = ("MemoryError", "the process has grown")
"""Beginnings of why a lever was given up that may be otherwise in the next job."""
Levers = tuple[str, ...]


@dataclass
class _Tried:
    """The units of one configuration, each with the block in which others were measured beside it."""

    one_time: float = 0.0
    units: list[tuple[int, float]] = field(default_factory=list)


def tried(whole: Measurement, plan: Plan, job: JobResult, catalogue: Catalogue) -> list[Measurement]:
    """Return the measurements of the trials in ``job``, in place of the measurement of the ``whole``.

    Each has the time outside of all units, the time to make it ready, and the times of its units, scaled to those of
    the workload. What was given up as wrong, and what the catalogue does not know, is left out. InputError for times
    that the job did not have: whatever wrote them, they are no measurement.
    """
    tuning, asked = job.tuning, plan.application.workload.units
    main = _main(tuning) if tuning is not None else None
    if tuning is None or main is None or not main.units:
        return []
    if job.seconds is not None and _measured(tuning) > job.seconds + CLOCKS:
        raise InputError(f"tuning: its trials took longer than the job, {job.seconds:.0f} s; nothing of it is recorded")
    before = job.restart.seconds if job.restart is not None else 0.0
    outside = max((job.seconds or 0.0) - before - main.seconds, 0.0)
    outside = max(outside - _switching(tuning, main), min(main.start or 0.0, outside))
    scale = main.units / asked
    base = whole.configuration.levers
    if plan.surveys:  # which begins with the default, whatever was chosen: its sets name all that is on
        base = [name for name in base if plan.chosen.launch is None or name not in plan.chosen.launch.candidates]
    # What was read from where an earlier job had kept it took less than it takes to make: no ratio may rest on both.
    offered = _offered(whole, plan).difference(plan.chosen.launch.kept if plan.chosen.launch else ())
    order = {name: number for number, name in enumerate(catalogue.levers)}
    by_levers = _by_levers(tuning, main)
    # What was on from the start and could be switched is named by each configuration that has it on.
    named = frozenset(name for levers in by_levers for name in levers)
    off = unused(plan, tuning)
    always = [name for name in base if name not in named | off]
    records = []
    for levers, entry in by_levers.items():
        if not set(levers) <= order.keys() & offered:
            continue
        on = sorted({*always, *levers}, key=order.__getitem__) if set(always) <= order.keys() else [*always, *levers]
        records.append(
            whole.model_copy(
                update={
                    "kind": "trial",
                    "configuration": whole.configuration.model_copy(update={"levers": on}),
                    "runs": list(_runs(entry, outside, scale, whole.runs[0].time)),
                    "provenance": whole.provenance.model_copy(update={"method": METHOD}),
                }
            )
        )
    return records


def failed(whole: Measurement, plan: Plan, job: JobResult, catalogue: Catalogue) -> list[str]:
    """Return the levers that ``job`` tried and could not use, so that no later job tries them again."""
    if job.tuning is None:
        return []
    wrong = given_up(job.tuning)
    lost = [trial for trial in job.tuning.trials if trial.failed or tuple(trial.levers) in wrong]
    return _added((trial for trial in lost if not trial.result.startswith(TRANSIENT)), whole, plan, catalogue)


def slower_at_first(whole: Measurement, plan: Plan, job: JobResult, catalogue: Catalogue) -> list[str]:
    """Return the levers that took long to be made ready and of which ``job`` knows one unit alone, which was slower."""
    trials = job.tuning.trials if job.tuning is not None else ()
    dear = [trial for trial in trials if (trial.one_time or 0.0) > DEAR and not trial.failed]
    short = (trial for trial in dear if trial.result.startswith(SLOWER_AT_FIRST))
    return _added(short, whole, plan, catalogue)


def _added(trials: Iterable[Trial], whole: Measurement, plan: Plan, catalogue: Catalogue) -> list[str]:
    """Return what trials tried, if it was offered: each adds its last lever to what was the fastest before."""
    last = {trial.levers[-1] for trial in trials if trial.levers}
    return sorted(last & _offered(whole, plan) & catalogue.levers.keys())


def given_up(tuning: Tuning) -> set[Levers]:
    """Return the sets of levers that failed, by what the process said of those that are not used."""
    sentences = (sentence.partition(": ") for sentence in tuning.not_used)
    right = (NOT_TRIED, GIVEN_UP)
    return {tuple(name.split(" + ")) for name, _, reason in sentences if not reason.startswith(right)}


def unused(plan: Plan, tuning: Tuning) -> set[str]:
    """Return the launcher's levers of the Plan that were not on, or not for long: a node may lack what they need."""
    levers = set(plan.chosen.launch.levers if plan.chosen.launch else ())
    if not tuning.processes or tuning.incomplete:
        return set()
    wrong = {name for names in given_up(tuning) if set(names) <= levers for name in names}
    lost = {name for name in levers if any(text.startswith(f"{name}: {GIVEN_UP}") for text in tuning.not_used)}
    return (levers - set(tuning.levers)) | wrong | lost


def _offered(whole: Measurement, plan: Plan) -> set[str]:
    """Return what the record of a job may name: it comes from the target."""
    return {*whole.configuration.levers, *(plan.chosen.launch.candidates if plan.chosen.launch else ())}


def _measured(tuning: Tuning) -> float:
    """Return the seconds that the trials of one process say they took, one after another, or its longest unit."""
    rivals = (max(trial.rival_times, default=0.0) for trial in tuning.trials)
    return max([sum(sum(trial.times) for trial in tuning.trials), *rivals])


def _main(tuning: Tuning) -> Counted | None:
    """Return the counter of the object on which most of the time was spent, of those that levers were tried on.

    None where it counts the units of several such objects: how many were whose is not known then.
    """
    objects = {trial.of for trial in tuning.trials}
    for counted in tuning.counted:
        count = sum(is_of(counted, name) for name in objects)
        if count:
            return counted if count == 1 else None
    return None


def is_of(counted: Counted, name: str) -> bool:
    """Tell whether a counter counts the units of the object ``name`` that levers were tried on.

    Keras's callbacks count the batches of a kind, ``keras: train``, and trials are made on those of one model,
    ``keras: train of Net``.
    """
    return name == counted.name.partition(": ")[2] or name.startswith(f"{counted.name} of ")


def _switching(tuning: Tuning, main: Counted) -> float:
    """Return the seconds between units for which a survey of the main object switched from one set to another."""
    return sum(settled.switching or 0.0 for settled in tuning.settled if is_of(main, settled.of))


def _of_longest_survey(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials of one object, where several of one name were surveyed: of that with the most time."""
    surveys: dict[int, list[Trial]] = {}
    for trial in trials:
        if trial.rounds:
            surveys.setdefault(trial.rounds[0] // ROUNDS, []).append(trial)
    longest = max(surveys.values(), key=lambda survey: sum(sum(trial.times) for trial in survey), default=[])
    return [*longest, *(trial for trial in trials if not trial.rounds)]


def _by_levers(tuning: Tuning, main: Counted) -> dict[Levers, _Tried]:
    """Return the units of each configuration that was tried on the main object and not given up as wrong."""
    wrong = given_up(tuning)
    tried_levers: dict[Levers, _Tried] = {}
    trials = _of_longest_survey([trial for trial in tuning.trials if is_of(main, trial.of)])
    refused = {tuple(trial.levers) for trial in trials if trial.failed}
    refused |= {tuple(named) for trial in trials for named in (trial.levers, trial.rival)} & wrong
    for number, trial in enumerate(trials):
        for levers, times in ((trial.levers, trial.times), (trial.rival, trial.rival_times)):
            if tuple(levers) in refused or not times:
                continue
            entry = tried_levers.setdefault(tuple(levers), _Tried())
            blocks = trial.rounds or range(number * BLOCK, number * BLOCK + len(times))
            entry.units += [(block, seconds) for block, seconds in zip(blocks, times, strict=False) if seconds > 0]
        for levers, one_time in ((trial.levers, trial.one_time), (trial.rival, trial.rival_cost)):
            if tuple(levers) in tried_levers and one_time:
                tried_levers[tuple(levers)].one_time = one_time
    # What a set added to a part of it found libraries imported and code compiled; the next job begins without them.
    alone = [(frozenset(names), entry.one_time) for names, entry in tried_levers.items()]
    for names, entry in tried_levers.items():
        entry.one_time = max(seconds for part, seconds in alone if part.issubset(names))
    return {levers: entry for levers, entry in tried_levers.items() if entry.units}


def _runs(tried: _Tried, outside: float, scale: float, time: int | None) -> Iterator[Run]:
    """Yield a run for each unit that was measured, as if all units had taken as long."""
    for block, seconds in tried.units:
        unit = seconds * scale
        first = unit + tried.one_time
        later = [unit]
        # Rounded up, so that the units take no longer than the whole.
        yield Run(total=_above(outside, [first, *later]), first=first, later=later, block=block, time=time)


def _above(outside: float, units: Sequence[float]) -> float:
    return outside + sum(units) * (1 + 1e-12) + 1e-9
