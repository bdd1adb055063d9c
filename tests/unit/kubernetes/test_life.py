"""Objects of an API server that no real one gives: wrong types, pods of others, and answers that come in between."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import jobplans
from modak_deploy.errors import ModakError
from modak_deploy.kubernetes.api import Cluster, Refused
from modak_deploy.kubernetes.commands import result_of, state_text
from modak_deploy.kubernetes.life import ClusterJob

NAME = "modak-probe-0"
LABELS = {"app.kubernetes.io/managed-by": "modak", "app.kubernetes.io/instance": NAME}
JOB: dict[str, Any] = {
    "metadata": {
        "uid": "u1",
        "labels": LABELS,
        "annotations": {"modak/plan": "tag"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"suspend": False},
    "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": []},
}
FAILED = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
POD: dict[str, Any] = {
    "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:01Z", "ownerReferences": [{"uid": "u1"}]},
    "spec": {"nodeName": "n"},
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}],
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}},
            {"state": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:02Z"}}},
        ],
    },
}


class Answers(Cluster):
    """A cluster that answers with these objects."""

    def __init__(self, job: Any, pods: Any, created: Callable[[bool], Any] = lambda _: None) -> None:
        self._job, self._listed, self._created = job, pods, created

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        if path.startswith("/apis"):
            return self._job
        return self._listed if path.endswith("/pods") else {"items": [], "status": {"conditions": []}}

    def create(self, path: str, body: Mapping[str, Any], *, dry: bool = False) -> Any:
        return self._created(dry)

    def text(self, path: str, query: Mapping[str, str]) -> bytes:
        return path.encode()


def _changed(value: Any) -> Iterator[Any]:
    """Return copies in which one part has another type."""
    yield from (None, [], [[]], {}, "\x1b[2J\n\u2028", 10**30, True, 1.5, {"a": {"b": []}})
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            for part in _changed(value[key]):
                copied = deepcopy(value)
                copied[key] = part
                yield copied


@pytest.mark.parametrize("conditions", [[], FAILED])
@pytest.mark.parametrize("running", [False, True])
def test_objects_of_wrong_types_are_no_traceback(conditions: list[Any], running: bool, tmp_path: Path) -> None:
    job, pod = deepcopy(JOB), deepcopy(POD)
    job["status"]["conditions"] = conditions
    if running:
        pod["status"]["phase"] = "Running"
    plan = jobplans.plan(["true"], tmp_path)
    objects = [(odd, {"items": [pod]}) for odd in _changed(job) if isinstance(odd, dict)]
    objects += [(job, odd) for odd in _changed({"items": [pod]}) if isinstance(odd, dict)]
    assert len(objects) > 200
    for there, listed in objects:
        try:
            text = state_text(result_of(plan, ClusterJob(Answers(there, listed), "a", NAME).look()))
        except ModakError:
            continue
        assert text.isprintable(), (there, listed)


def test_a_pod_that_another_job_left_is_not_this_ones() -> None:
    old = {**POD, "metadata": {**POD["metadata"], "name": "old", "ownerReferences": [{"uid": "u0"}]}}
    stray = {**POD, "metadata": {"name": "stray", "creationTimestamp": "2027-01-01T00:00:00Z"}}
    listed = {"items": [old, POD, stray]}
    job = ClusterJob(Answers(JOB, listed), "a", NAME)
    assert (job.look().pod, job.log(lines=1)) == ("p", b"/api/v1/namespaces/a/pods/p/log")
    assert ClusterJob(Answers(JOB, {"items": [old, stray]}), "a", NAME).log(lines=1) is None


def test_a_job_that_another_run_makes_meanwhile_is_no_old_cluster() -> None:
    wanted = {**JOB, "spec": {"suspend": True, "completions": 2}}
    cluster = Answers(None, {})

    def meanwhile(dry: bool) -> None:
        cluster._job = wanted

    cluster._created = meanwhile
    assert not ClusterJob(cluster, "a", NAME).create([wanted], dry=False)


def _task(number: int, code: int, ended: str, *, phase: str = "Failed", reason: str = "Error") -> dict[str, Any]:
    """Return the pod of an array's task that has ended."""
    terminated = {
        "exitCode": code,
        "reason": reason,
        "startedAt": f"2026-01-01T00:00:0{number}Z",
        "finishedAt": f"2026-01-01T00:{ended}Z",
    }
    created = {"name": f"p{number}", "creationTimestamp": f"2026-01-01T00:00:0{number}Z"}
    return {
        "metadata": {**created, "ownerReferences": [{"uid": "u1"}]},
        "spec": {"nodeName": f"n{number}"},
        "status": {"phase": phase, "containerStatuses": [{"state": {"terminated": terminated}}]},
    }


def test_of_an_array_that_failed_the_first_task_that_did_counts(tmp_path: Path) -> None:
    """Kubernetes then ends the others: the newest pod has the exit code of that, or of a task that went well."""
    job = deepcopy(JOB)
    job["status"]["conditions"] = FAILED
    well = _task(1, 0, "00:20", phase="Succeeded", reason="Completed")
    for last in (_task(3, 137, "00:50"), _task(3, 0, "00:50", phase="Succeeded")):
        there = ClusterJob(Answers(job, {"items": [well, _task(2, 3, "00:30"), last]}), "a", NAME)
        seen = there.look()
        assert (seen.pod, seen.node, seen.exit_code) == ("p2", "n2", 3)
        result = result_of(jobplans.plan(["true"], tmp_path), seen)
        assert result is not None
        assert (result.state, result.reason, result.seconds) == ("failed", "exit code 3", 49.0)
        assert there.log(lines=1) == b"/api/v1/namespaces/a/pods/p2/log"


def test_a_task_past_its_wall_time_is_a_timeout(tmp_path: Path) -> None:
    job, pod = deepcopy(JOB), _task(2, 137, "00:30")
    job["status"]["conditions"] = FAILED
    pod["status"]["reason"] = "DeadlineExceeded"
    result = result_of(jobplans.plan(["true"], tmp_path), ClusterJob(Answers(job, {"items": [pod]}), "a", NAME).look())
    assert result is not None
    assert (result.state, result.reason) == ("timeout", "DeadlineExceeded")


def test_an_array_runs_while_one_of_its_tasks_does() -> None:
    running = {**POD, "status": {"phase": "Running"}}
    waiting = deepcopy(POD)
    waiting["metadata"] |= {"name": "q", "creationTimestamp": "2026-01-01T00:00:09Z"}
    seen = ClusterJob(Answers(JOB, {"items": [running, waiting]}), "a", NAME).look()
    assert (seen.state, seen.pod) == ("running", "p")


class WithoutEvents(Answers):
    """A cluster whose events this user may not read."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        if path.endswith("/events"):
            raise Refused(403, "events is forbidden", f"GET {path}")
        return super().get(path, query)


def test_a_user_who_may_not_read_events_waits_for_a_pod_all_the_same() -> None:
    seen = ClusterJob(WithoutEvents(JOB, {"items": []}), "a", NAME).look()
    assert (seen.state, seen.refused) == ("queued", "")
