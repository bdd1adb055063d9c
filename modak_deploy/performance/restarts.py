"""From what a job tried before its run to measurements: one of each candidate, the default included."""

from collections.abc import Iterator

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.job import JobResult
from modak_deploy.model.measurement import Measurement, Run
from modak_deploy.model.plan import Plan
from modak_deploy.model.trials import RestartTrial

METHOD = "Trials before the run of a deployed job, each in a new process, stopped when its steady rate was known."
_TIMED = ("measured", "beaten")
_ENDED = (130, 137, 143)
"""Exit codes of programs that were ended from outside, as for want of memory: of the lever they say nothing."""


def tried_before(whole: Measurement, plan: Plan, job: JobResult, catalogue: Catalogue) -> list[Measurement]:
    """Return the measurements of the trials before the run in ``job``; the ``whole`` is that of the run itself.

    What failed or had another result is left out, and what the catalogue does not know.
    """
    restart = plan.restart
    if job.restart is None or restart is None:
        return []
    # Of candidates alone that the Plan names: the record comes from the target.
    offered = {candidate.name: candidate for candidate in restart.candidates}
    wrong = {trial.name for trial in job.restart.trials if trial.state in ("failed", "different", "unusable")}
    rated = {trial.name for trial in job.restart.trials if trial.state in _TIMED and not trial.whole}
    runs: dict[str, list[Run]] = {}
    for trial in job.restart.trials:
        if trial.name in wrong or trial.state not in _TIMED or trial.name not in offered:
            continue
        if trial.whole and trial.name in rated:
            continue
        if not set(offered[trial.name].levers) <= catalogue.levers.keys():
            continue
        runs.setdefault(trial.name, []).extend(_run(trial, plan, job, whole))
    return [
        whole.model_copy(
            update={
                "kind": "trial",
                "configuration": whole.configuration.model_copy(
                    update={"levers": offered[name].levers, "framework": offered[name].engine}
                ),
                "runs": timed,
                "provenance": whole.provenance.model_copy(update={"method": METHOD}),
            }
        )
        for name, timed in runs.items()
        if timed
    ]


def failed_before(plan: Plan, job: JobResult, catalogue: Catalogue) -> list[str]:
    """Return the levers with which the program ended with an error before its run, or had another result.

    Of candidates alone that differ from what was chosen by one lever, else it is not certain which one it was; and
    nothing where what was chosen failed as well, in one of its turns: the node, or chance, may be the reason then.
    """
    restart = plan.restart
    if job.restart is None or restart is None:
        return []
    offered = {candidate.name: candidate for candidate in restart.candidates}
    chosen = restart.candidates[0]
    wrong = {trial.name for trial in job.restart.trials if _is_wrong(trial)}
    if chosen.name in wrong:
        return []
    names = set()
    for candidate in (offered[name] for name in wrong & offered.keys()):
        if candidate.engine == chosen.engine:
            added = set(candidate.levers) - set(chosen.levers)
            names |= added if len(added) == 1 else set()
    return sorted(names & catalogue.levers.keys())


def _is_wrong(trial: RestartTrial) -> bool:
    return trial.state == "different" or (trial.state == "failed" and trial.exit_code not in (None, 0, *_ENDED))


def _run(trial: RestartTrial, plan: Plan, job: JobResult, whole: Measurement) -> Iterator[Run]:
    """Yield a trial as a run, as if all units had taken as long.

    Its parts are no runs of their own: from one process to the next times differ by more than within one, and a gain
    that many parts of two processes agree on is not certain.
    """
    if not trial.steady or plan.restart is None:
        return
    time = whole.runs[0].time if whole.runs else None
    if trial.whole:
        yield Run(total=trial.steady * trial.units, load=trial.load, time=time)
        return
    if plan.restart.units is not None:
        outside = max((trial.start or 0.0) - trial.steady, 0.0)
        unit = trial.steady * _scale(plan, job)
        total = outside + 2 * unit * (1 + 1e-12) + 1e-9
        yield Run(total=total, first=unit, later=[unit], load=trial.load, time=time)
        return
    if plan.restart.only:
        return
    # How much of a unit of the workload was timed is not known: it is as the steady times are to each other.
    trials = job.restart.trials if job.restart is not None else []
    chosen = job.restart.chosen if job.restart is not None else None
    best = [trial.steady for trial in trials if trial.name == chosen and trial.steady is not None and trial.steady > 0]
    if best and whole.runs and whole.runs[0].total:
        total = whole.runs[0].total * trial.steady / min(best)
        yield Run(total=total, load=trial.load, time=time)


def _scale(plan: Plan, job: JobResult) -> float:
    """Return how many of the counted units are one of the workload."""
    counted = job.tuning.counted[0] if job.tuning is not None and job.tuning.counted else None
    if plan.restart is None or plan.restart.signal != "launcher" or counted is None or not counted.units:
        return 1.0
    return counted.units / plan.application.workload.units
