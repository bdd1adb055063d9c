"""The life of a Job: created once, waited for until it ends, removed with all that belongs to it."""

import time
from calendar import timegm
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.kubernetes.api import Cluster, Refused, path_of
from modak_deploy.providers.kubernetes import PLAN_ANNOTATION
from modak_deploy.reported import MAX_TIME
from modak_deploy.terminal import excerpt

Say = Callable[[str], None]
_FIRST, _LONGEST = 0.5, 10.0
"""Seconds between two looks at a Job."""
_PATIENT = 300.0
"""Seconds for which an API server that cannot be reached is tried again."""
_STUCK = frozenset({"InvalidImageName", "ImagePullBackOff", "ErrImageNeverPull", "CreateContainerConfigError"})
"""Reasons of a container that waits and will not start by itself."""
_LOST_AFTER = 2
"""Looks in a row that must show the pod's node as lost."""


@dataclass(frozen=True)
class State:
    """What is seen of a Job."""

    name: str
    state: Literal["absent", "queued", "running", "completed", "failed"]
    reason: str = ""
    pod: str | None = None
    node: str | None = None
    exit_code: int | None = None
    refused: str = ""
    """Why its pod cannot be created or started."""
    lost: bool = False
    """Whether the node of its pod has stopped to answer."""
    uid: str = ""
    """Which of the Jobs that had this name one after another."""
    submitted: float | None = None
    """When the Job was created, in seconds since the epoch, as the times that follow."""
    started: float | None = None
    ended: float | None = None


class ClusterJob:
    """One Job on a cluster, by its name."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster, self.namespace, self.name = cluster, namespace, name
        self._selector = {"labelSelector": f"app.kubernetes.io/managed-by=modak,app.kubernetes.io/instance={name}"}

    def create(self, manifests: list[dict[str, Any]], *, dry: bool) -> bool:
        """Create what is not there; return whether the Job was not. JobError where the cluster refuses it."""
        job = manifests[-1]
        existing = self._get("jobs")
        if existing is not None:
            self._check_own(existing, job)
            return False
        self._check_refused(job)
        if dry:
            return True
        made = [self._make_input(body) for body in manifests[:-1]]
        try:
            if self._cluster.create(path_of("jobs", self.namespace), job) is not None:
                return True
        except Refused:
            for uid in filter(None, made):
                self._cluster.delete(path_of("configmaps", self.namespace, self.name), uid)
            raise
        existing = self._get("jobs")  # another run of modak was faster
        if existing is None:
            raise TargetError(f"the Job {self.name} is being deleted", hint="try again when it is gone")
        self._check_own(existing, job)
        return False

    def check_replacement(self, job: dict[str, Any]) -> None:
        """Raise JobError where the cluster refuses the Job that is to take the place of the one that exists."""
        try:
            self._check_refused(job)
        except Refused as error:
            # Where only so many Jobs are permitted, the one that is to go counts as well.
            if "exceeded quota" not in str(error):
                raise

    def _check_refused(self, job: dict[str, Any]) -> None:
        stored = self._cluster.create(path_of("jobs", self.namespace), job, dry=True)
        if stored is not None:  # else one of its name exists, which the API server looks at last
            self._check_kept(job, stored)

    def _make_input(self, body: dict[str, Any]) -> str | None:
        """Create the ConfigMap; return its uid where it was not there, else check that it is the same."""
        if (created := self._cluster.create(path_of("configmaps", self.namespace), body)) is not None:
            return _text(created, "metadata", "uid")
        existing = self._get("configmaps")
        if existing is None or existing.get("binaryData") != body.get("binaryData"):
            raise JobError(f"a ConfigMap {self.name} with other content exists", hint="undeploy, and deploy again")
        return None

    def _check_own(self, existing: dict[str, Any], job: dict[str, Any]) -> None:
        if not _is_own(existing, self.name) or _annotation(existing) != _annotation(job):
            raise JobError(
                f"a Job {self.name} that is not this Plan's exists in {self.namespace}", hint="delete it first"
            )
        if _text(existing, "metadata", "deletionTimestamp"):
            raise JobError(f"the Job {self.name} is being deleted", hint="try again when it is gone")

    def _check_kept(self, job: dict[str, Any], stored: dict[str, Any]) -> None:
        """Check what the API server would store: an old one drops fields that it does not know."""
        spec = _mapping(stored, "spec")
        wanted = job["spec"]
        if wanted.get("suspend") and not spec.get("suspend"):
            raise InputError(
                "the cluster cannot suspend Jobs", key="queue", hint="Kubernetes 1.24 or newer is required"
            )
        if wanted["completions"] > 1 and spec.get("completionMode") != "Indexed":
            raise InputError(
                "the cluster has no indexed Jobs", key="job.array", hint="Kubernetes 1.24 or newer is required"
            )

    def look(self) -> State:
        """Return what is seen of the Job now."""
        job = self._get("jobs")
        if job is None or not _is_own(job, self.name):
            return State(self.name, "absent")
        pods, over = self._pods(job), _over(job)
        pod = _telling(pods, failed=over.get("type") == "Failed")
        name = None if pod is None else _text(pod, "metadata", "name")
        node = None if pod is None else _text(pod, "spec", "nodeName") or None
        ended = _ended(pod)
        seen = State(
            self.name,
            "queued",
            pod=name,
            node=node,
            uid=_text(job, "metadata", "uid"),
            submitted=_seconds(_text(job, "metadata", "creationTimestamp")),
            started=_seconds(min(_times(pods, "startedAt"), default="") or _text(job, "status", "startTime")),
            ended=_seconds(max(_times(pods, "finishedAt"), default="")),
        )
        code = _code(ended.get("exitCode"))
        if over:
            if over["type"] == "Complete":
                return replace(seen, state="completed", exit_code=0)
            return replace(seen, state="failed", reason=_why(over, ended, pod), exit_code=code)
        if pod is None:
            waits = _mapping(job, "spec").get("suspend")
            return replace(seen, refused="" if waits else self._refusal(job))
        if _text(pod, "status", "phase") == "Running":
            return replace(seen, state="running", lost=self._is_lost(pod))
        return replace(seen, reason=_unscheduled(pod), refused=_stuck(pod))

    def wait(self, say: Say, timeout: float | None) -> State:
        """Return the state in which the Job has ended; JobError where it cannot start, or its node is lost."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, lost, shown, reached = _FIRST, 0, "", time.monotonic()
        while True:
            try:
                seen = self.look()
                reached = time.monotonic()
            except TargetError as error:
                if time.monotonic() - reached > _PATIENT:
                    raise
                say(f"{excerpt(str(error))}; trying again")
                seen = State(self.name, "queued")
            if seen.state in ("completed", "failed"):
                return seen
            lost = lost + 1 if seen.lost else 0
            _check_alive(self.name, seen, lost)
            line = f"{self.name}: {seen.state}{f' on {excerpt(seen.node)}' if seen.node else ''}"
            line += f": {excerpt(seen.reason)}" if seen.reason else ""
            if line != shown:
                say(line)
                shown = line
            if deadline is not None and time.monotonic() > deadline:
                raise JobError(f"the Job {self.name} is {seen.state} after {timeout:.0f} s", hint="the Job goes on")
            time.sleep(pause)
            pause = min(_LONGEST, pause * 1.3)

    def log(self, *, lines: int) -> bytes | None:
        """Return the last lines that the program has printed; None where there is no pod, or none that has started."""
        job = self._get("jobs")
        pods = self._pods(job) if job is not None and _is_own(job, self.name) else []
        if not pods:
            return None
        pod = _telling(pods, failed=_over(job).get("type") == "Failed")
        path = path_of("pods", self.namespace, _text(pod, "metadata", "name"), part="log")
        try:
            return self._cluster.text(path, {"container": "job", "tailLines": str(lines)})
        except Refused as error:
            if error.status in (400, 404):  # it waits to start, or is being deleted
                return None
            raise

    def remove(self, say: Say, *, dry: bool, timeout: float = 120.0) -> list[str]:
        """Delete the Job, its pods and its ConfigMap, and wait until they are gone; return what there was."""
        doomed = self._belongings()
        if dry or not doomed:
            return list(doomed)
        deadline = time.monotonic() + timeout
        left = doomed
        while left:
            for kind in ("jobs", "configmaps"):
                thing = self._get(kind)
                if (
                    thing is not None
                    and _is_own(thing, self.name)
                    and not _text(thing, "metadata", "deletionTimestamp")
                ):
                    self._cluster.delete(path_of(kind, self.namespace, self.name), _text(thing, "metadata", "uid"))
            if time.monotonic() > deadline:
                raise JobError(
                    f"still there after {timeout:.0f} s: {', '.join(left)}",
                    hint="a node that is lost keeps its pods: kubectl delete pod --force, once nothing of it runs",
                )
            time.sleep(0.3)
            left = self._belongings()
        say(f"{self.name}: removed")
        return list(doomed)

    def remove_ended(self, seen: State, timeout: float = 120.0) -> None:
        """Delete the very Job that was seen, and its pods; not one that another modak has made in its place."""
        self._cluster.delete(path_of("jobs", self.namespace, self.name), seen.uid)
        deadline = time.monotonic() + timeout
        while _text(self._get("jobs"), "metadata", "uid") == seen.uid:
            if time.monotonic() > deadline:
                raise JobError(f"the Job {self.name} is still there after {timeout:.0f} s", hint="undeploy removes it")
            time.sleep(0.3)

    def _belongings(self) -> list[str]:
        things = []
        for kind in ("jobs", "pods", "configmaps"):
            listed = self._cluster.get(path_of(kind, self.namespace), self._selector) or {}
            things += [f"{kind}/{excerpt(_text(item, 'metadata', 'name'))}" for item in _list(listed, "items")]
        return things

    def _get(self, kind: str) -> dict[str, Any] | None:
        return self._cluster.get(path_of(kind, self.namespace, self.name))

    def _pods(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pods that the Job's controller has made, oldest first; anybody may give a pod their labels."""
        uid = _text(job, "metadata", "uid")
        listed = self._cluster.get(path_of("pods", self.namespace), self._selector) or {}
        own = [
            pod
            for pod in _list(listed, "items")
            if any(owner.get("uid") == uid for owner in _list(pod, "metadata", "ownerReferences"))
        ]
        return sorted(own, key=lambda pod: _text(pod, "metadata", "creationTimestamp"))

    def _refusal(self, job: dict[str, Any]) -> str:
        """Return why the Job's pod is not created, such as an exceeded quota."""
        query = {"fieldSelector": f"involvedObject.uid={_text(job, 'metadata', 'uid')},reason=FailedCreate"}
        try:
            events = _list(self._cluster.get(path_of("events", self.namespace), query), "items")
        except Refused as error:
            if error.status != 403:  # not every user may read events
                raise
            return ""
        return _text(events[-1], "message") if events else ""

    def _is_lost(self, pod: dict[str, Any]) -> bool:
        """Return whether the pod's node has stopped to answer: its controller then makes the pod not ready."""
        return any(
            condition.get("type") == "Ready" and condition.get("reason") == "NodeLost"
            for condition in _list(pod, "status", "conditions")
        ) or self._node_is_unknown(_text(pod, "spec", "nodeName"))

    def _node_is_unknown(self, name: str) -> bool:
        try:
            node = self._cluster.get(f"/api/v1/nodes/{quote(name, safe='')}") if name else None
        except Refused:  # not every user may read nodes
            return False
        return any(
            condition.get("type") == "Ready" and condition.get("status") == "Unknown"
            for condition in _list(node or {}, "status", "conditions")
        )


def _check_alive(name: str, seen: State, lost: int) -> None:
    if seen.state == "absent":
        raise JobError(f"the Job {name} was deleted", hint="deploy again to run it again")
    if seen.refused:
        raise JobError(
            f"the pod of the Job {name} cannot be started: {excerpt(seen.refused, 500)}",
            hint="the Job stays, and starts when that is mended; undeploy removes it",
        )
    if lost >= _LOST_AFTER:
        raise JobError(
            f"the node {excerpt(seen.node or '')} of the Job {name} does not answer",
            hint="it is not run elsewhere; deploy waits for it again, undeploy removes it",
        )


def _why(condition: dict[str, Any], ended: dict[str, Any], pod: dict[str, Any] | None) -> str:
    """Return why a Job has failed, by its pod where that says more than 'BackoffLimitExceeded'."""
    reason = _text(condition, "reason")
    of_pod = _text(pod, "status", "reason")
    # A pod past its own deadline was killed: of its container that says no more than "Error".
    own = of_pod if of_pod == "DeadlineExceeded" else _text(ended, "reason") or of_pod
    return own if own and own != "Error" and reason != "DeadlineExceeded" else reason


def _over(job: dict[str, Any] | None) -> dict[str, Any]:
    """Return the condition by which a Job is over; an empty one where it is not."""
    for condition in _list(job, "status", "conditions"):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return condition
    return {}


def _telling(pods: list[dict[str, Any]], *, failed: bool) -> dict[str, Any] | None:
    """Return the pod that tells most: of a Job that has failed the first that did, else one that runs, else the newest.

    An array has several, and those that its first failure ends have other exit codes.
    """
    if failed and (bad := [pod for pod in pods if _text(pod, "status", "phase") == "Failed"]):
        return min(bad, key=lambda pod: _text(_ended(pod), "finishedAt") or "~")
    running = [pod for pod in pods if _text(pod, "status", "phase") == "Running"]
    telling = running or pods
    return telling[-1] if telling else None


def _times(pods: list[dict[str, Any]], key: str) -> list[str]:
    """Return when the containers of pods started or finished, as far as they have ended."""
    return [time for pod in pods if (time := _text(_ended(pod), key))]


def _ended(pod: dict[str, Any] | None) -> dict[str, Any]:
    for status in _list(pod or {}, "status", "containerStatuses"):
        state = status.get("state")
        if isinstance(state, dict) and isinstance(state.get("terminated"), dict):
            return dict(state["terminated"])
    return {}


def _stuck(pod: dict[str, Any]) -> str:
    for status in _list(pod, "status", "containerStatuses"):
        state = status.get("state")
        waiting = state.get("waiting") if isinstance(state, dict) else None
        if (reason := _text(waiting, "reason")) in _STUCK:
            return f"{reason}: {_text(waiting, 'message')}"
    return ""


def _unscheduled(pod: dict[str, Any]) -> str:
    for condition in _list(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _text(condition, "message")
    return ""


def _is_own(thing: dict[str, Any], name: str) -> bool:
    labels = _mapping(thing, "metadata", "labels")
    return labels.get("app.kubernetes.io/managed-by") == "modak" and labels.get("app.kubernetes.io/instance") == name


def _annotation(thing: dict[str, Any]) -> object:
    return _mapping(thing, "metadata", "annotations").get(PLAN_ANNOTATION)


def _code(value: object) -> int | None:
    """Return an exit code; None for what is none."""
    return value if type(value) is int and -(2**31) <= value < 2**32 else None


def _seconds(text: str) -> float | None:
    """Return a time of the API server; None for what is none."""
    try:
        seconds = float(timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= MAX_TIME else None


def _text(value: Any, *keys: str) -> str:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _mapping(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list(value: Any, *keys: str) -> list[dict[str, Any]]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
