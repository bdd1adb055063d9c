"""What is done with the Job of a Plan, for whoever asks for it: created, waited for, its results fetched."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.logs import explanation
from modak_deploy.jobs.results import RESULT
from modak_deploy.jobs.results.folder import ResultsFolder
from modak_deploy.jobs.results.metrics import MAX_BYTES, parse_metrics
from modak_deploy.jobs.tuning import parse_tuning
from modak_deploy.kept import keep_plan
from modak_deploy.kubernetes.api import Cluster
from modak_deploy.kubernetes.life import ClusterJob, Say, State
from modak_deploy.kubernetes.results import Returned, parse_log, unpack, without_results
from modak_deploy.manifest import read_plan, workload_of
from modak_deploy.model.job import JobResult, JobState
from modak_deploy.model.kubernetes import Placement
from modak_deploy.model.plan import Plan
from modak_deploy.paths import expanded
from modak_deploy.providers.kubernetes import WORK, Workload, job_name, manifests, returns_results
from modak_deploy.terminal import excerpt

OUTPUT = "output.log"
_ALL = 200_000
"""Lines of a log that are kept with the results."""
_ENDS: dict[str, JobState] = {
    "DeadlineExceeded": "timeout",
    "OOMKilled": "out_of_memory",
    "NodeLost": "node_failure",
    "NodeShutdown": "node_failure",
    "Preempting": "preempted",
}
"""What a Job that failed is called elsewhere, by the reason of the Job or its pod."""


@dataclass(frozen=True)
class Described:
    """A Plan, what of it runs on a cluster, and where."""

    plan: Plan
    workload: Workload
    placement: Placement

    @classmethod
    def of(cls, plan: Plan, placement: Placement, search: Sequence[Path]) -> "Described":
        """Return what runs; InputError for what a Job cannot do."""
        return cls(plan, workload_of(plan, search, returned=True), placement)

    @classmethod
    def read(cls, path: Path, placement: Placement, search: Sequence[Path]) -> "Described":
        """Read a Plan; InputError for what a Job cannot do."""
        folders = [expanded(folder).absolute() for folder in (*search, path.parent, Path())]
        return cls.of(read_plan(path), placement, list(dict.fromkeys(folders)))


@dataclass(frozen=True)
class Ran:
    """What a run has done."""

    changed: bool
    created: bool
    """Whether the Job was created, or would be."""
    job: ClusterJob
    result: JobResult | None = None
    """What became of the Job; None where there is none."""
    problem: str = ""
    """Why the Job did not complete; empty where it did, or was not waited for."""


def job_of(plan: Plan, placement: Placement, cluster: Cluster) -> ClusterJob:
    """Return the Job of a Plan; the application's files are not needed for it."""
    request = job_request(plan)
    return ClusterJob(cluster, placement.namespace, job_name(request.name, request.tag))


def deploy(
    described: Described, cluster: Cluster, say: Say, *, results: Path, wait: bool, timeout: float | None, check: bool
) -> Ran:
    """Create the Job where it is not there, wait for its end and fetch its results; JobError where it cannot run."""
    plan = described.plan
    job = job_of(plan, described.placement, cluster)
    created = job.create(manifests(described.workload, described.placement), dry=check)
    if check:
        return Ran(created, created, job, None if created else result_of(plan, job.look()))
    if not wait:
        return Ran(created, created, job, result_of(plan, job.look()))
    fetched, changed = fetch(described, job, job.wait(say, timeout), results)
    problem = "" if fetched.state == "completed" else explanation(job_request(plan), fetched)
    return Ran(created or changed, created, job, fetched, problem)


def result_of(plan: Plan, seen: State) -> JobResult | None:
    """Return what is seen of a Job as the result of any job; None where there is none."""
    if seen.state == "absent":
        return None
    state: JobState = _ENDS.get(seen.reason, "failed") if seen.state == "failed" else seen.state
    lost = "its node does not answer" if seen.lost else ""
    # That a Job which is run once may not be run again says nothing beside the program's exit code.
    plain = seen.reason == "BackoffLimitExceeded" and seen.exit_code is not None
    reason = f"exit code {seen.exit_code}" if plain else seen.refused or seen.reason or lost
    started, ended = seen.started, seen.ended
    return JobResult(
        id=seen.name,
        scheduler=plan.scheduler,
        tag=plan.tag(),
        state=state,
        reason=excerpt(reason, 500),
        exit_code=seen.exit_code,
        host=None if seen.node is None else excerpt(seen.node),
        submitted=seen.submitted,
        started=started,
        ended=ended,
        # The API server's times are whole seconds.
        seconds=max(1.0, ended - started) if started is not None and ended is not None else None,
        directory=WORK,
    )


def fetch(described: Described, job: ClusterJob, seen: State, results: Path) -> tuple[JobResult, bool]:
    """Write log, outputs and what became of the Job below ``results``; nothing where that was done before."""
    result = result_of(described.plan, seen)
    if result is None:
        raise JobError(f"the Job {job.name} was deleted", hint="deploy again to run it again")
    kept = keep_plan(described.plan, results)
    with ResultsFolder(results / described.plan.name) as folder:
        result = result.model_copy(update={"results": str(folder.path)})
        before = _before(folder)
        if before is not None and _same(before, result):
            return before, kept
        result = _fetched(described, job, result, folder)
        folder.put(RESULT, (result.model_dump_json(indent=2) + "\n").encode(), 0o600)
        return result, True


def _fetched(described: Described, job: ClusterJob, result: JobResult, folder: ResultsFolder) -> JobResult:
    workload, application = described.workload, described.plan.application
    failed = result.state != "completed"
    log = job.log(lines=_ALL) if workload.array is None else None
    if log is not None and returns_results(workload, described.placement):
        returned = _take(log, workload, folder, failed=failed)
        not_fetched = [f"{excerpt(path)}: {reason}" for path, reason in returned.skipped.items()]
        tuning = parse_tuning(returned.records, returned.recorded) if described.workload.records else None
        result = result.model_copy(update={"not_fetched": not_fetched, "tuning": tuning})
    elif returns_results(workload, described.placement) and not failed:
        raise JobError(
            f"the results of the Job {job.name} are lost: its pod is gone", hint="undeploy, and deploy again"
        )
    elif log is not None:
        folder.put(OUTPUT, log, 0o600)
    if application.metrics is not None and not failed and described.placement.work_claim is None:
        data = folder.read(application.metrics, MAX_BYTES)
        if data is None:
            raise JobError(f"no metrics file {application.metrics} of at most {MAX_BYTES // 1024**2} MiB")
        result = result.model_copy(update={"metrics": parse_metrics(data, application.metrics)})
    return result


def _before(folder: ResultsFolder) -> JobResult | None:
    try:
        return JobResult.model_validate_json(folder.read(RESULT, MAX_BYTES) or b"")
    except ValueError:  # no file of ours: it is written anew
        return None


def _same(before: JobResult, now: JobResult) -> bool:
    """Return whether the results that lie there are those of this very Job, which has ended once."""
    return all(getattr(before, key) == getattr(now, key) for key in ("id", "tag", "state", "submitted", "results"))


def _take(log: bytes, workload: Workload, folder: ResultsFolder, *, failed: bool) -> Returned:
    try:
        returned = parse_log(log)
    except JobError:
        folder.put(OUTPUT, without_results(log), 0o600)
        raise
    except TargetError:
        folder.put(OUTPUT, log, 0o600)
        if failed:  # one that was killed has printed nothing more
            return Returned(log, None)
        raise
    folder.put(OUTPUT, returned.output, 0o600)
    unpack(returned, workload, folder)
    for output in workload.outputs:
        there = any(path == output or path.startswith(f"{output}/") for path in returned.written)
        if not failed and not there and output not in returned.skipped:
            raise JobError(f"the Job completed without writing '{output}', which application.outputs declares")
    return returned


def logs(job: ClusterJob, lines: int) -> bytes:
    """Return the last lines that the program has printed, without the results."""
    log = job.log(lines=_ALL)
    if log is None:
        raise InputError("there is no output", hint="deploy first; a Job that waits has printed nothing")
    return b"".join(without_results(log).splitlines(keepends=True)[-lines:]) if lines else b""


def text_of(ran: Ran, *, check: bool) -> str:
    """Return the sentence about what ``deploy`` has done."""
    if ran.result is None:
        state = "would be created" if check else "created"
    else:
        state = f"{'exists: ' if check else ''}{state_text(ran.result)}"
    where = f"; results in {ran.result.results}" if ran.result is not None and ran.result.results else ""
    return f"{ran.job.name}: {state}{where}{'' if ran.changed else ' (unchanged)'}"


def state_text(result: JobResult | None) -> str:
    """Return the state of a Job in a line."""
    if result is None:
        return "not deployed"
    where = f" on {result.host}" if result.host else ""
    return f"{result.state}{where}{f': {result.reason}' if result.reason else ''}"
