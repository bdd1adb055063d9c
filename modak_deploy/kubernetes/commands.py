"""What ``modak kubernetes`` does, apart from how it is called."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.results.folder import ResultsFolder
from modak_deploy.jobs.results.metrics import MAX_BYTES, parse_metrics
from modak_deploy.kubernetes.api import Cluster
from modak_deploy.kubernetes.life import ClusterJob, Say, State
from modak_deploy.kubernetes.results import parse_log, unpack, without_results
from modak_deploy.manifest import read_plan, workload_of
from modak_deploy.model.plan import Plan
from modak_deploy.providers.kubernetes import Placement, Workload, job_name, manifests, returns_results
from modak_deploy.terminal import excerpt

RESULT, OUTPUT = "kubernetes.json", "output.log"
_ALL = 200_000
"""Lines of a log that are kept with the results."""


@dataclass(frozen=True)
class Described:
    """A Plan, what of it runs on a cluster, and where."""

    plan: Plan
    workload: Workload
    placement: Placement

    @classmethod
    def read(cls, path: Path, placement: Placement, search: Sequence[Path]) -> "Described":
        """Read a Plan; InputError for what a Job cannot do."""
        plan = read_plan(path)
        folders = [folder.expanduser().absolute() for folder in (*search, path.parent, Path())]
        workload = workload_of(plan, list(dict.fromkeys(folders)), returned=True)
        return cls(plan, workload, placement)


def job_of(plan: Plan, placement: Placement, cluster: Cluster) -> ClusterJob:
    """Return the Job of a Plan; the application's files are not needed for it."""
    request = job_request(plan)
    return ClusterJob(cluster, placement.namespace, job_name(request.name, request.tag))


def deploy(
    described: Described, cluster: Cluster, say: Say, *, results: Path, wait: bool, timeout: float | None, check: bool
) -> dict[str, Any]:
    """Create the Job where it is not there, wait for its end and fetch its results; JobError where it failed."""
    job = job_of(described.plan, described.placement, cluster)
    created = job.create(manifests(described.workload, described.placement), dry=check)
    value: dict[str, Any] = {"changed": created, "name": job.name, "namespace": job.namespace, "check": check}
    if check or not wait:
        return value
    seen = job.wait(say, timeout)
    folder, changed = _fetch(described, job, seen, results)
    if seen.state == "failed":
        code = "" if seen.exit_code is None else f" with exit code {seen.exit_code}"
        output = f"; its output is in {folder / OUTPUT}" if (folder / OUTPUT).is_file() else ""
        raise JobError(
            f"the Job {job.name} failed{code}: {excerpt(seen.reason)}{output}",
            hint="it is not run again by itself; undeploy, and deploy again",
        )
    return value | {"changed": created or changed, "state": seen.state, "results": str(folder)}


def _fetch(described: Described, job: ClusterJob, seen: State, results: Path) -> tuple[Path, bool]:
    """Write log, outputs and what became of the Job below ``results``; nothing where that was done before."""
    workload = described.workload
    with ResultsFolder(results / described.plan.name) as folder:
        result: dict[str, Any] = {
            "job": job.name,
            "namespace": job.namespace,
            "tag": workload.tag,
            "state": seen.state,
            "reason": seen.reason,
            "exit_code": seen.exit_code,
            "node": seen.node,
        }
        before = folder.read(RESULT, MAX_BYTES)
        if before is not None and _is_of(before, result):
            return folder.path, False
        log = job.log(lines=_ALL) if workload.array is None else None
        skipped: dict[str, str] = {}
        if log is not None and returns_results(workload, described.placement):
            skipped = _take(log, workload, folder, failed=seen.state == "failed")
        elif log is not None:
            folder.put(OUTPUT, log, 0o600)
        metrics = described.plan.application.metrics
        if metrics is not None and seen.state == "completed" and described.placement.work_claim is None:
            data = folder.read(metrics, MAX_BYTES)
            if data is None:
                raise JobError(f"no metrics file {metrics} of at most {MAX_BYTES // 1024**2} MiB")
            result["metrics"] = parse_metrics(data, metrics)
        folder.put(RESULT, (json.dumps(result | {"not_fetched": skipped}, indent=2) + "\n").encode(), 0o600)
        return folder.path, True


def _is_of(text: bytes, result: dict[str, Any]) -> bool:
    try:
        before = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(before, dict) and all(before.get(key) == value for key, value in result.items())


def _take(log: bytes, workload: Workload, folder: ResultsFolder, *, failed: bool) -> dict[str, str]:
    try:
        returned = parse_log(log)
    except JobError:
        folder.put(OUTPUT, log, 0o600)
        raise
    except TargetError:
        folder.put(OUTPUT, log, 0o600)
        if failed:  # one that was killed has printed nothing more
            return {}
        raise
    folder.put(OUTPUT, returned.output, 0o600)
    unpack(returned, workload.outputs, folder)
    for output in workload.outputs:
        there = any(path == output or path.startswith(f"{output}/") for path in returned.written)
        if not failed and not there and output not in returned.skipped:
            raise JobError(f"the Job completed without writing '{output}', which application.outputs declares")
    return returned.skipped


def deployed_text(value: Mapping[str, Any]) -> str:
    """Return the sentence about what ``deploy`` has done."""
    if value["check"]:
        state = "would be created" if value["changed"] else "exists"
    else:
        state = value.get("state") or ("created" if value["changed"] else "exists")
    where = f"; results in {value['results']}" if "results" in value else ""
    return f"{value['name']}: {state}{where}{'' if value['changed'] else ' (unchanged)'}"


def state_of(job: ClusterJob) -> dict[str, Any]:
    """Return what is seen of a Job."""
    seen = job.look()
    return {"name": job.name, "namespace": job.namespace, **asdict(seen)}


def state_text(value: Mapping[str, Any]) -> str:
    """Return the line about a Job's state."""
    where = f" on {value['node']}" if value["node"] else ""
    code = f" with exit code {value['exit_code']}" if value["exit_code"] else ""
    lost = "its node does not answer" if value["lost"] else ""
    why = excerpt(value["refused"] or value["reason"] or lost, 500)
    return f"{value['name']}: {value['state']}{where}{code}{f': {why}' if why else ''}"


def logs(job: ClusterJob, lines: int) -> bytes:
    """Return the last lines that the program has printed, without the results."""
    log = job.log(lines=_ALL)
    if log is None:
        raise InputError("there is no pod", hint="deploy first; a Job that waits has printed nothing")
    return b"".join(without_results(log).splitlines(keepends=True)[-lines:]) if lines else b""
