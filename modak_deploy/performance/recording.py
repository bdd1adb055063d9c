"""From a job that ran to a measurement: what was deployed is what the next Plan learns from."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.names import accelerator_name
from modak_deploy.documents.jsontext import read_model
from modak_deploy.documents.validation import diagnostics_of
from modak_deploy.engines.registry import package_of
from modak_deploy.errors import InputError
from modak_deploy.model.base import LONGEST_SECONDS
from modak_deploy.model.job import JobResult
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.model.nodes import node_of_plan
from modak_deploy.model.plan import Plan
from modak_deploy.model.trials import RestartCandidate
from modak_deploy.performance.matching import bf16_of
from modak_deploy.performance.restarts import failed_before, tried_before
from modak_deploy.performance.seen import workload_of
from modak_deploy.performance.trials import failed, slower_at_first, tried, unused

PLAN, JOB = "plan.json", "job.json"
FIRST, LATER = "first_epoch_seconds", "later_epoch_seconds"
"""Keys of the metrics under which an application usually tells its units' seconds."""
MOST_UNITS = 1000
"""Units of a workload that are recorded one by one."""
_QUIET = 0.1
"""Neighbours' load for each core of a node up to which a job counts as undisturbed."""


def add_results(
    folders: Sequence[Path],
    catalogue: Catalogue,
    store: str | None = None,
    *,
    first: str = FIRST,
    later: str = LATER,
    whole: bool = True,
) -> tuple[int, int, str]:
    """Add the measurements of the jobs whose results lie in ``folders`` to the ``store``; see ``records_of``.

    Return how many were new, how many it had already, and the store's name.
    """
    from modak_deploy.performance.store import Store

    records = [
        record for folder in folders for record in records_of(folder, catalogue, first=first, later=later, whole=whole)
    ]
    opened = Store(store)
    try:
        return (*opened.add(records), opened.name)
    finally:
        opened.close()


def check_recordable(plan: Plan, origin: str) -> None:
    """Raise InputError for a Plan whose job can be no measurement."""
    if plan.application.workload.model is None:
        raise InputError(f"{origin}: application.workload.model is missing, by which measurements are found")


def records_of(
    folder: Path, catalogue: Catalogue, *, first: str = FIRST, later: str = LATER, whole: bool = True
) -> list[Measurement]:
    """Return the measurements of the job whose results lie in ``folder``: one, or one for each configuration tried.

    Without ``whole`` its run is none, and only what it tried is: its node was not known to be free of other work.

    ``first`` and ``later`` are the keys of the metrics under which the application tells the seconds of its first unit
    and of each later one; where it does not, the launcher may, and else only the whole is known. InputError when the
    job did not complete, or the workload has no name.
    """
    plan, job = read_model(folder / PLAN, Plan), read_model(folder / JOB, JobResult)
    if job.tag != plan.tag():
        raise InputError(f"{folder / JOB}: it is of another job than {PLAN}: {job.tag}, not {plan.tag()}")
    if job.state != "completed":
        raise InputError(f"{folder / JOB}: a measurement needs a job that completed, and this one is {job.state}")
    if not job.seconds:
        raise InputError(f"{folder / JOB}: seconds: the job's script measured none, or its clock was set meanwhile")
    check_recordable(plan, str(folder / PLAN))
    try:
        only = plan.restart is not None and plan.restart.only
        seconds = job.seconds - (job.restart.seconds if job.restart is not None and not only else 0)
        if seconds <= 0:
            return []
        run = _measurement(plan, job, seconds, catalogue, (first, later), str(folder / JOB))
        lost = [*failed(run, plan, job, catalogue), *failed_before(plan, job, catalogue)]
        last = slower_at_first(run, plan, job, catalogue)
        run = run.model_copy(update={"failed": sorted(set(lost)) or None, "slower_at_first": last or None})
        before = tried_before(run, plan, job, catalogue)
        if only:
            return before
        tried = _tried(run, plan, job, catalogue, str(folder / JOB)) if job.tuning is not None else []
        # A job that went on with what it had tried is a run of no configuration.
        if tried or plan.surveys or _went_on_with_others(job):
            return before + tried
        as_it_ran = _as_it_ran(run, plan, job)
        if whole:
            return [*before, as_it_ran]
        # What later jobs need not try again is noted all the same, and the time counts as no more than a trial's.
        noted = not before and (run.failed or run.slower_at_first)
        return [*before, *([as_it_ran.model_copy(update={"kind": "trial"})] if noted else [])]
    except ValidationError as error:
        raise InputError(diagnostics_of(error, Measurement, origin=str(folder / JOB))) from None
    except (OverflowError, OSError, ValueError):
        raise InputError(f"{folder / JOB}: the job's times are no times of a clock that is set") from None


def _tried(whole: Measurement, plan: Plan, job: JobResult, catalogue: Catalogue, origin: str) -> list[Measurement]:
    try:
        return tried(whole, plan, job, catalogue)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None


def _as_it_ran(whole: Measurement, plan: Plan, job: JobResult) -> Measurement:
    """Return the measurement without levers of the launcher that were not on."""
    off = unused(plan, job.tuning) if job.tuning is not None else set()
    levers = [name for name in whole.configuration.levers if name not in off]
    return whole.model_copy(update={"configuration": whole.configuration.model_copy(update={"levers": levers})})


def _went_on_with_others(job: JobResult) -> bool:
    return job.tuning is not None and any(trial.kept for trial in job.tuning.trials)


def is_learnt_from(plan: Plan, result: JobResult) -> bool:
    """Return whether a job is recorded where nobody says anything: it tells how long a known workload takes.

    A job with neighbours does not: how fast they let it run is no property of its configuration. What was tried side by
    side still is, as the neighbours were there for all.
    """
    if plan.application.workload.model is None or plan.job.array is not None:
        return False
    return has_trials(result) or (result.state == "completed" and bool(result.seconds) and is_undisturbed(plan, result))


def is_undisturbed(plan: Plan, result: JobResult) -> bool:
    """Return whether the job's node was known to be free of other work when it started."""
    cores = node_of_plan(plan).cores or 1
    return result.load is not None and result.load <= max(_QUIET * cores, 0.5)


def has_trials(result: JobResult) -> bool:
    """Return whether a job leaves measurements of what it tried."""
    tuning, before = result.tuning, result.restart
    tried = (tuning is not None and bool(tuning.trials)) or (before is not None and bool(before.trials))
    return result.state == "completed" and bool(result.seconds) and tried


def _measurement(
    plan: Plan, job: JobResult, seconds: float, catalogue: Catalogue, keys: tuple[str, str], origin: str
) -> Measurement:
    return measurement_of(
        plan,
        [_run(job, seconds, job.metrics or {}, keys, origin, plan.application.workload.units)],
        catalogue,
        when=job.started or job.submitted or 0,
        source=f"job {job.id} of {plan.name} on {plan.target.name}",
        method="One run of a deployed job; the wall time of the application as its job script took it.",
        tried=_tried_and_chosen(plan, job),
        seen=job,
    )


def measurement_of(
    plan: Plan,
    runs: Sequence[Run],
    catalogue: Catalogue,
    *,
    when: float,
    source: str,
    method: str,
    tried: RestartCandidate | None = None,
    seen: JobResult | None = None,
) -> Measurement:
    """Return the measurement that runs of a Plan's candidate are; ``when`` is in seconds since the epoch.

    ``tried`` is what the program ran with, where trials before the run decided that, and ``seen`` the job whose
    launcher saw the running model.
    """
    chosen, resources = plan.chosen, plan.chosen.resources
    application = plan.application
    workload, mix = workload_of(seen, application.type, application.workload) if seen else (application.workload, None)
    return Measurement(
        type=plan.application.type,
        framework=plan.application.framework.name.lower() if plan.application.framework else None,
        workload=workload,
        mix=mix,
        software=_software(plan, catalogue),
        hardware=_hardware(plan, catalogue),
        configuration=Configuration(
            runtime=chosen.runtime,
            image=chosen.image.entry if chosen.image else None,
            framework=chosen.engine if tried is None else tried.engine,
            compiler=chosen.compiler,
            levers=plan.chosen.levers if tried is None else tried.levers,
            nodes=resources.nodes,
            ranks=resources.ranks,
            threads=plan.job.threads if plan.target.kind.single_node else resources.threads,
        ),
        runs=list(runs),
        provenance=Provenance(source=source, date=datetime.fromtimestamp(when, UTC).date().isoformat(), method=method),
    )


def _tried_and_chosen(plan: Plan, job: JobResult) -> RestartCandidate | None:
    """Return the candidate that won before the run; None where nothing was tried, and it ran as planned."""
    if job.restart is None or plan.restart is None:
        return None
    offered = {candidate.name: candidate for candidate in plan.restart.candidates}
    return offered.get(job.restart.chosen or "")


def _run(
    job: JobResult, total: float, metrics: Mapping[str, Any], keys: tuple[str, str], origin: str, asked: int
) -> Run:
    """Return the run; InputError for seconds of its units that cannot be true.

    Then neither the units nor the whole is to be believed: one of the two clocks was wrong.
    """
    first, later = keys
    first_seconds, others = metrics.get(first), metrics.get(later)
    phased = _is_seconds(first_seconds) and isinstance(others, list) and bool(others) and all(map(_is_seconds, others))
    units = (
        [float(first_seconds), *map(float, others)]
        if phased and first_seconds is not None and others is not None
        else []
    )
    if (spent := sum(units)) > total:
        raise InputError(
            f"{origin}: metrics.{first}: with {later} {spent:.1f} s, longer than the {total:.1f} s of the whole job; "
            "the job is not recorded"
        )
    units = units_asked(units, total, asked) if units else counted_units(job, total, asked)
    accuracy = metrics.get("accuracy")
    return Run(
        total=total,
        first=units[0] if units else None,
        later=units[1:],
        load=job.load,
        time=int(job.started) if job.started else None,
        accuracy=float(accuracy) if isinstance(accuracy, int | float) and 0 <= accuracy <= 1 else None,
    )


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LONGEST_SECONDS


def units_asked(measured: Sequence[float], total: float, asked: int) -> list[float]:
    """Return the seconds of each of the workload's ``asked`` units, of a run with these seconds of its own units.

    A program reports its epochs where the document counts steps, or the run as one unit, or it stops early. What one of
    its units takes is then no time of a unit of the workload, which a prediction multiplies by their number: all
    together take as long as those that it reports. Empty where that is not possible, and the whole alone counts.
    """
    if len(measured) == asked:
        return list(measured)
    if not 1 < asked <= MOST_UNITS or len(measured) < 2:
        return []
    first, *later = measured
    mean = math.fsum(later) / len(later)
    return alike_units(mean * len(measured) / asked, max(first - mean, 0.0), total, asked)


def alike_units(unit: float, once: float, total: float, asked: int) -> list[float]:
    """Return so many units of the same length, the first with what is done once; empty where they exceed the total."""
    units = [unit + once, *[unit] * (asked - 1)]
    return units if unit > 0 and units[0] + sum(units[1:]) <= total else []


def counted_units(job: JobResult, total: float, asked: int) -> list[float]:
    """Return the seconds of each of the workload's units as the launcher counted them; empty where it tells none."""
    main = job.tuning.counted[0] if job.tuning is not None and job.tuning.counted else None
    if main is None or main.steady is None or main.compile is None or not main.steady or not 1 < asked <= MOST_UNITS:
        return []
    return alike_units(main.steady * main.units / asked, main.compile, total, asked)


def _software(plan: Plan, catalogue: Catalogue) -> dict[str, str]:
    """Return the versions that a decision asks about: of the framework, and of what its levers' conditions name."""
    image = plan.chosen.image
    entry = catalogue.images.get(image.entry) if image is not None and image.entry else None
    inside: Mapping[str, str] = plan.facts.packages if image is None else entry.packages if entry else {}
    framework = plan.application.framework
    wanted = {"python"} | ({package_of(framework.name)} if framework else set())
    for name in plan.chosen.levers:
        wanted |= set(catalogue.levers[name].when.packages) if name in catalogue.levers else set()
    versions: dict[str, str] = {}
    for package in sorted(wanted):
        for name in (package, *catalogue.packages.get(package, ())):
            if name in inside:
                versions.setdefault(package, inside[name])
    return versions


def _hardware(plan: Plan, catalogue: Catalogue) -> Hardware:
    node = node_of_plan(plan)
    resources = plan.chosen.resources
    gpus = resources.gpus if node.accelerators else 0
    return Hardware(
        microarchitecture=node.microarchitecture,
        cpu_model=node.cpu_model,
        bf16=bf16_of(node.cpu_features),
        cores=resources.threads * resources.ranks_per_node if resources.threads else node.cores,
        memory=node.memory,
        accelerator=accelerator_name(node.accelerators[0].model, catalogue) if gpus else None,
        accelerators=gpus,
    )
