"""What is asked of a service's host and done there, one step each; see ``sh``."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from modak_deploy import reported
from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.job import check_workspace, folder_name
from modak_deploy.jobs.remote import STEP_LIMIT, Answer, call, token
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.services.record import ServiceRecord, parse
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport

PORTS = (20000, 31999)
"""First and last port for replicas: below those that Linux gives to connections (ip_local_port_range)."""
LONGEST = 20.0
"""Seconds for which one step waits; a longer wait is several steps."""


class ChangedError(JobError):
    """Another run has changed the service since its record was read."""


@dataclass(frozen=True)
class Looked:
    """What a host reports of a service."""

    directory: str
    record: ServiceRecord | None
    haproxy: str | None
    """Path of the program."""
    has_proc: bool
    tools: frozenset[str]
    configuration: str = ""
    """That of the proxy."""


@dataclass(frozen=True)
class Probe:
    """What is to be ready: a port of the host, and the job whose program listens on it."""

    address: str
    port: int
    request: JobRequest
    contained: bool = False
    """Whether another user than the target's may be the one that listens, as for a container of podman or docker."""


@dataclass(frozen=True)
class Readiness:
    """What was seen of it."""

    ready: bool
    runs: bool
    """Whether its job runs; the program may be about to be started again."""
    listens: bool
    """Whether anything listens on the port."""
    restarts: int = 0
    foreign: bool = False
    """Whether what listens is a process of another user."""


class Host:
    """The host of a service."""

    def __init__(self, transport: Transport, request: JobRequest) -> None:
        """``request`` is any job of the service: its name and its target are those of the service."""
        self._transport = transport
        self.name = request.name
        self._workspace = check_workspace(request)

    def look(self) -> Looked:
        """Return what the host reports; TargetError for what no service of this name can be."""
        answer = self._call("look")
        directory = reported.absolute_path(answer.text("directory"), "a folder for the service")
        asked = f"{self._workspace.removeprefix('~').rstrip('/')}/services/{self.name}"
        if directory != asked if self._workspace.startswith("/") else not directory.endswith(asked):
            raise TargetError(f"the target reports the folder '{excerpt(directory)}' for the service, not '{asked}'")
        record = parse(answer.text("record"), self.name)
        if record is not None and record.revision != answer.integer("revision", most=10**9):
            raise TargetError(f"the record of the service {self.name} on the target is damaged: two revisions")
        haproxy = answer.text("haproxy").strip()
        tools = frozenset(name for name in ("curl", "wget", "bash") if answer.get(name) is not None)
        program = reported.absolute_path(haproxy, "a path of haproxy") if haproxy else None
        return Looked(directory, record, program, answer.get("proc") is not None, tools, answer.text("configuration"))

    def write(self, record: ServiceRecord, revision: int) -> ServiceRecord:
        """Put a record in place of the one with this revision, 0 for none; return it with its own revision.

        ChangedError where another run was faster.
        """
        new = record.model_copy(update={"revision": revision + 1})
        data = f"{new.revision}\n{new.to_json()}".encode()
        answer = self._call("write", str(revision), token(), stdin=data)
        self._check_unchanged(answer)
        return new

    def reserve(self, counts: Mapping[str, int]) -> list[list[int]]:
        """Reserve free ports of the host, so many for each of the replicas with these ids, and return them."""
        if not any(counts.values()):
            return [[] for _ in counts]
        first, last = PORTS
        start = first + secrets.randbelow(last - first)
        wanted = [text for identity, count in counts.items() for text in (identity, str(count))]
        answer = self._call("reserve", *map(str, (start, first, last)), *wanted)
        ports = [reported.integer(text, "port", least=first, most=last) for text in answer.text("ports").split()]
        number = sum(counts.values())
        if len(ports) != number or len(set(ports)) != number:
            raise TargetError(f"the target reports the ports '{excerpt(answer.text('ports'))}', and not {number}")
        left = iter(ports)
        return [list(islice(left, count)) for count in counts.values()]

    def ready(self, probes: Sequence[Probe], health: str, *, seconds: float = 0.0, times: int = 1) -> list[Readiness]:
        """Return what was seen when all were ready ``times`` times in a row, or after ``seconds``."""
        if not probes:
            return []
        specs = [
            text
            for p in probes
            for text in (p.address, str(p.port), "any" if p.contained else "own", folder_name(p.request))
        ]
        answer = self._call("ready", health, str(round(seconds)), str(times), *specs, seconds=seconds)
        seen = [_readiness(group) for group in answer.groups("replica")]
        if len(seen) != len(probes):
            raise TargetError(f"the target reports {len(seen)} replicas, and not {len(probes)}")
        return seen

    def front(self, text: str, revision: int, haproxy: str, request: JobRequest) -> tuple[str, str]:
        """Have the proxy use a configuration; return the outcome (see ``front.sh``) and what the proxy says of it."""
        answer = self._call("front", str(revision), token(), haproxy, folder_name(request), stdin=text.encode())
        self._check_unchanged(answer)
        for outcome in ("invalid", "placed", "loaded", "switched", "reloaded", "stays"):
            if (said := answer.get(outcome)) is not None:
                return outcome, said
        raise TargetError("the answer to the step 'front' has no outcome")

    def drain(self, request: JobRequest, seconds: float) -> bool:
        """Wait for at most ``seconds`` until the proxy has completed older requests; return whether it has."""
        answer = self._call("drain", folder_name(request), str(round(seconds)), seconds=seconds)
        return answer.integer("workers", most=10**6) <= 1

    def stop(self, request: JobRequest, seconds: float) -> None:
        """Tell a supervised program to end, and wait for that for at most ``seconds``."""
        self._call("stop", folder_name(request), str(round(seconds)), seconds=seconds)

    def remove(self, revision: int) -> bool:
        """Remove the service's folder; return False, and remove nothing, where its record has another revision."""
        return self._call("remove", str(revision), token()).get("changed") is None

    def _check_unchanged(self, answer: Answer) -> None:
        if answer.get("changed") is not None:
            raise self.changed()

    def changed(self) -> ChangedError:
        """Return the error of a run that another one has overtaken."""
        return ChangedError(f"another run has changed the service {self.name} meanwhile", hint="deploy it again")

    def _call(self, step: str, *arguments: str, stdin: bytes = b"", seconds: float = 0.0) -> Answer:
        return call(
            self._transport,
            step,
            [self._workspace, self.name, *arguments],
            stdin=stdin,
            package=__package__,
            library=["lock", "service"],
            limit=STEP_LIMIT + seconds,
        )


def _readiness(group: dict[str, str]) -> Readiness:
    restarts = group.get("restarts", "").split()
    count = reported.integer(restarts[0], "number of restarts", most=10**9) if restarts else 0
    return Readiness("ready" in group, "runs" in group, "listens" in group, count, "foreign" in group)
