"""A service's deployment and its end, where other runs change it at any moment."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError, JobError, ModakError
from modak_deploy.jobs.control import JobInput, Jobs
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.services.front import configuration
from modak_deploy.services.host import ChangedError, Host, Looked, Probe, Readiness
from modak_deploy.services.life import Services
from modak_deploy.services.record import FrontRecord, Replica, ServiceRecord, tag_of
from modak_deploy.services.steps import service_of
from modak_deploy.transport.local import LocalTransport
from services import GONE, READY, replica, service_plan

FRONT = "f" * 16


class FakeHost:
    """A host on which jobs run as soon as they are started; ``during`` is called when a step begins."""

    def __init__(self, made: Plan, record: ServiceRecord | None = None, running: Sequence[str] = ()) -> None:
        self.name, self.record, self.configuration = made.name, record, ""
        self.running = {tag_of(made.name, identity) for identity in running}
        self.during: Callable[[str], None] = lambda _step: None

    changed = Host.changed

    def look(self) -> Looked:
        tools = frozenset({"curl"})
        return Looked("/w/services/probe", self.record, "/usr/sbin/haproxy", True, tools, self.configuration)

    def write(self, record: ServiceRecord, revision: int) -> ServiceRecord:
        self.during("write")
        if revision != (self.record.revision if self.record else 0):
            raise ChangedError("changed")
        self.record = record.model_copy(update={"revision": revision + 1})
        return self.record

    def reserve(self, counts: dict[str, int]) -> list[list[int]]:
        ports = iter(range(21000, 22000))
        return [[next(ports) for _ in range(count)] for count in counts.values()]

    def ready(self, probes: Sequence[Probe], *_: Any, **__: Any) -> list[Readiness]:
        return [READY if probe.request.tag in self.running else GONE for probe in probes]

    def front(self, text: str, revision: int, _program: str, request: JobRequest) -> tuple[str, str]:
        self.during("front")
        if self.record is None or revision != self.record.revision:
            raise ChangedError("changed")
        before, self.configuration = self.configuration, text
        return ("placed" if request.tag not in self.running else "loaded" if before == text else "switched"), ""

    def drain(self, *_: object) -> bool:
        return True

    def stop(self, *_: object) -> None:
        return None

    def remove(self, revision: int) -> bool:
        self.during("remove")
        if revision != (self.record.revision if self.record else 0):
            return False
        self.record = None
        return True


class FakeJobs(Jobs):
    """Jobs of that host."""

    def __init__(self, host: FakeHost) -> None:
        self.host, self.ended = host, list[str]()

    def present(self, request: JobRequest, *_: Any, **__: Any) -> Any:
        self.host.during("start")
        self.host.running.add(request.tag)

    def present_all(self, inputs: Sequence[JobInput], **_: Any) -> list[Any]:
        for item in inputs:
            self.present(item.request)
        return [None for _ in inputs]

    def absent(self, request: JobRequest) -> bool:
        self.ended.append(request.tag)
        there = request.tag in self.host.running
        self.host.running.discard(request.tag)
        return there

    def check(self, item: JobInput) -> None:
        self.host.during("check")


def services(made: Plan, host: Any) -> tuple[Services, FakeJobs]:
    jobs = FakeJobs(host)
    run = Services(LocalTransport(), jobs, made, notice=print, clock=iter(range(10**6)).__next__)
    run._host = host
    return run, jobs


def recorded(made: Plan, *replicas: Replica, front: str | None = FRONT) -> ServiceRecord:
    there = None if front is None else FrontRecord(id=front, address="127.0.0.1", port=18080)
    return ServiceRecord(name=made.name, revision=1, front=there, replicas=list(replicas))


def once(step: str, what: Callable[[], None]) -> Callable[[str], None]:
    """Return what does something the first time that a step begins."""
    left = [what]

    def during(now: str) -> None:
        if now == step and left:
            left.pop()()

    return during


def test_a_first_deployment_and_its_end(tmp_path: Path) -> None:
    made = service_plan(tmp_path, replicas=2)
    host = FakeHost(made)
    run, _ = services(made, host)
    assert run.deploy(JobInput).changed and len(host.running) == 3
    assert not run.deploy(JobInput).changed
    assert run.preview() == []
    run.absent()
    assert host.record is None and not host.running


def test_of_what_the_proxy_says_only_the_end_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = service_plan(tmp_path, replicas=2)
    host = FakeHost(made)
    said = "".join(f"line {number} {'x' * 9000}\n\n" for number in range(100))
    monkeypatch.setattr(host, "front", lambda *_: ("invalid", said))
    run, _ = services(made, host)
    with pytest.raises(JobError, match="HAProxy refuses its configuration") as caught:
        run.deploy(JobInput)
    lines = str(caught.value).splitlines()[1:]
    assert [line.split()[2] for line in lines] == [str(number) for number in range(90, 100)]
    assert max(len(line) for line in lines) < 600


def test_a_recorded_front_keeps_its_id(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    host = FakeHost(made, recorded(made, replica(1, made)), [f"{1:016x}"])
    run, jobs = services(made, host)
    assert run.deploy(JobInput).changed
    assert host.record is not None and host.record.front is not None and host.record.front.id == FRONT
    assert tag_of("probe", FRONT) in host.running and tag_of("probe", FRONT) in jobs.ended


def test_a_front_that_another_run_starts_meanwhile_stays(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    host = FakeHost(made, recorded(made, replica(1, made)), [f"{1:016x}"])
    run, jobs = services(made, host)
    host.during = once("write", lambda: host.running.add(tag_of("probe", FRONT)))
    run.deploy(JobInput)
    assert tag_of("probe", FRONT) in host.running and tag_of("probe", FRONT) not in jobs.ended


@pytest.mark.parametrize("front", [None, "e" * 16])
def test_a_front_that_is_no_longer_recorded_is_ended(tmp_path: Path, front: str | None) -> None:
    made = service_plan(tmp_path)
    host = FakeHost(made, recorded(made, replica(1, made)), [f"{1:016x}"])
    run, _ = services(made, host)

    def other() -> None:
        host.record = None if front is None else recorded(made, replica(1, made), front=front)

    host.during = once("start", other)
    with pytest.raises(ChangedError):
        run.deploy(JobInput)
    assert tag_of("probe", FRONT) not in host.running


def test_what_is_started_during_an_undeployment_is_ended(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    host = FakeHost(made, recorded(made, replica(1, made)), [f"{1:016x}", FRONT])
    run, _ = services(made, host)
    host.during = once("remove", lambda: host.running.update(tag_of("probe", i) for i in (f"{1:016x}", FRONT)))
    assert run.absent()
    assert host.record is None and not host.running


@pytest.mark.parametrize("by", ["inputs", "check"])
def test_the_only_replica_stays_where_the_next_cannot_be_started(tmp_path: Path, by: str) -> None:
    made, old = service_plan(tmp_path, front="none"), service_plan(tmp_path, "old", front="none")
    there = replica(1, old, ports=[18080])
    host = FakeHost(made, recorded(made, there, front=None), [there.id])
    run, _ = services(made, host)

    def missing(*_: object) -> JobInput:
        raise InputError("an input is not there")

    if by == "check":
        host.during = once("check", missing)
    with pytest.raises(ModakError, match="an input is not there"):
        run.deploy(missing if by == "inputs" else JobInput)
    assert host.record is not None and host.record.replicas == [there]
    assert tag_of("probe", there.id) in host.running
    assert run.deploy(JobInput).changed and tag_of("probe", there.id) not in host.running


def test_a_preview_of_settings_of_the_front(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    record = recorded(made, replica(1, made))
    host = FakeHost(made, record, [f"{1:016x}", FRONT])
    assert record.front is not None
    host.configuration = configuration(record, record.front, service_of(made), "/w/services/probe")
    assert services(made, host)[0].preview() == []
    changed = service_plan(tmp_path, timeout=9)
    assert services(changed, host)[0].preview() == ["the front would get another configuration"]
    assert services(changed, host)[0].deploy(JobInput).changed
    assert services(changed, host)[0].preview() == []


@pytest.mark.parametrize("outcome", ["stays", "invalid"])
def test_a_front_that_cannot_move_keeps_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    """Its open port is the service's own, and no other program's, when the document is changed back."""
    made, moved = service_plan(tmp_path), service_plan(tmp_path, address="192.0.2.1", port=80)
    record = recorded(made, replica(1, made))
    host = FakeHost(made, record, [f"{1:016x}", FRONT])
    with monkeypatch.context() as patched:
        patched.setattr(host, "front", lambda *_: (outcome, ""))
        with pytest.raises(JobError, match="clients reach what they reached before"):
            services(moved, host)[0].deploy(JobInput)
    assert host.record is not None and host.record.front == record.front
    assert services(made, host)[0].deploy(JobInput).seen.record.front == record.front
    assert services(moved, host)[0].deploy(JobInput).changed
    assert host.record.front is not None and host.record.front.port == 80
