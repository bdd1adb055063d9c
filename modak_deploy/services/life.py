"""A service from its start to its end: replicas are started, watched, replaced one set by the next, and ended.

What belongs to a service is in its record on the target before it is started, and leaves the record after it has ended.
So a run that follows one that was killed knows all there is: it goes on with new replicas of the same Plan and ends
what is left of others. Each replica, and the proxy before them, is a job, which exists once.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from modak_deploy.containers import registry
from modak_deploy.errors import JobError, ModakError
from modak_deploy.jobs.control import JobInput, Jobs, Present
from modak_deploy.jobs.job import folder_name
from modak_deploy.jobs.output import tail
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.services.checks import check_host, no_haproxy
from modak_deploy.services.front import configuration, probed
from modak_deploy.services.host import LONGEST, ChangedError, Host, Looked, Probe, Readiness
from modak_deploy.services.record import FrontRecord, Replica, ServiceRecord
from modak_deploy.services.replica import front_request, removal_request, replica_request
from modak_deploy.services.steps import Seen, Steps, service_of, steps_to
from modak_deploy.terminal import visible
from modak_deploy.transport.base import Transport

Inputs = Callable[[JobRequest], JobInput]
"""Adds to a job what it needs from this machine: files, the image, secrets."""
_LOG_LINES, _LOG_WIDTH = 10, 500
"""Lines of a log that are shown, and characters of each."""
_ROUNDS = 5
"""How often an undeployment begins again because another run has changed the service meanwhile."""


class _NotLoadedError(JobError):
    """The proxy does not use the configuration that it was given."""


@dataclass(frozen=True)
class Deployed:
    """What a deployment has done, and what is there then."""

    changed: bool
    seen: Seen


class Services:
    """The service of a Plan on its target.

    All methods raise InputError for what cannot be honoured there, TargetError when the target does not answer or
    reports what no service can be, and JobError when a replica does not become ready.
    """

    def __init__(
        self,
        transport: Transport,
        jobs: Jobs,
        plan: Plan,
        *,
        notice: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._jobs, self._plan = transport, jobs, plan
        self._service = service_of(plan)
        self._host = Host(transport, removal_request(plan, "0" * 16))
        self._notice, self._clock = notice, clock
        self._own: list[Replica] = []
        """Replicas that this run has recorded."""

    # --- what is there ---

    def see(self, *, seconds: float = 0.0) -> Seen:
        """Return the service as it is; replicas of this Plan that run may take ``seconds`` to be ready."""
        looked = self._host.look()
        record = looked.record or ServiceRecord(name=self._plan.name)
        replicas = record.of("serving", "starting")
        probes = [self._probe(replica) for replica in replicas]
        wait = bool(replicas) and all(r.state == "serving" and r.plan == self._plan.tag() for r in replicas)
        seen = self._host.ready(probes, self._service.health)
        if wait and not all(item.ready for item in seen) and all(item.runs for item in seen):
            seen = self._await(probes, seconds)
        front = None
        if record.front is not None:
            (front,) = self._host.ready([self._front_probe(record.front)], self._service.health)
        return Seen(looked, record, {r.id: item for r, item in zip(replicas, seen, strict=True)}, front)

    def preview(self, *, again: bool = False) -> list[str]:
        """Return what ``deploy`` would do, in sentences; nothing is changed."""
        seen = self.see()
        check_host(self._host, self._plan, seen)
        sentences = steps_to(self._plan, seen, again=again).sentences()
        front = seen.record.front
        if not sentences and front is not None:
            text = configuration(seen.record, front, self._service, seen.looked.directory)
            if text.strip() != seen.looked.configuration.strip():
                return ["the front would get another configuration"]
        return sentences

    def _request(self, replica: Replica) -> JobRequest:
        return removal_request(self._plan, replica.id)

    def _probe(self, replica: Replica) -> Probe:
        runtime = self._plan.chosen.runtime
        contained = runtime != "native" and not registry.get(runtime).as_user
        return Probe("127.0.0.1", replica.port, self._request(replica), contained)

    def _front_probe(self, front: FrontRecord) -> Probe:
        return Probe(probed(front.address), front.port, removal_request(self._plan, front.id))

    def _await(self, probes: Sequence[Probe], seconds: float, times: int = 1) -> list[Readiness]:
        """Return what was seen when all were ready, or at the end of ``seconds``."""
        end = self._clock() + seconds
        while True:
            left = max(0.0, end - self._clock())
            seen = self._host.ready(probes, self._service.health, seconds=min(left, LONGEST), times=times)
            if all(item.ready for item in seen) or self._clock() >= end:
                return seen

    # --- deploy ---

    def deploy(self, inputs: Inputs, *, again: bool = False) -> Deployed:
        """Have the Plan's replicas, and lead clients to them; what is there stays until they are ready."""
        seen = self.see(seconds=self._service.start_limit)
        check_host(self._host, self._plan, seen)
        steps = steps_to(self._plan, seen, again=again)
        if not steps.changes:
            return self._unchanged(seen)
        is_new = seen.looked.record is None
        record = self._host.write(seen.record, 0) if is_new else seen.record
        try:
            return self._replace(record, seen, steps, inputs)
        except ChangedError:
            self._end_unrecorded()
            raise
        except ModakError:
            if is_new:
                self._forget_empty()
            raise

    def _unchanged(self, seen: Seen) -> Deployed:
        """See to it that the proxy leads to the replicas, which a run that was killed may have left undone."""
        changed = False
        if seen.record.front is not None:
            changed = self._switch(seen.record, seen.record.front, seen.looked)
            self._check_front(seen.record.front)
        return Deployed(changed, seen)

    def _replace(self, record: ServiceRecord, seen: Seen, steps: Steps, inputs: Inputs) -> Deployed:
        if self._service.front == "none" and steps.retire and (steps.new or steps.adopt):
            self._check_startable(inputs)
        record = self._end(record, steps.discard)
        if self._service.front == "none":
            record = self._end(record, steps.retire, gently=True)
            steps = replace(steps, retire=[])
        record, fresh = self._recorded(record, steps)
        self._start(record, fresh, inputs)
        front = record.front
        if steps.front:
            # It keeps its id: two runs that start it at the same time start one job.
            identity = _new_id() if front is None else front.id
            front = FrontRecord(id=identity, address=self._service.address, port=self._service.port)
        started, retired = {r.id for r in fresh}, {r.id for r in steps.retire}
        replicas = [
            r.model_copy(update={"state": "serving" if r.id in started else "retired" if r.id in retired else r.state})
            for r in record.replicas
        ]
        before = record.front
        record = self._write(record.model_copy(update={"replicas": replicas, "front": front}))
        if front is not None:
            if before is not None and steps.front:
                self._forget_ended(front)
            self._switch_from(before, record, front, seen.looked)
            self._check_front(front)
            self._drain(front, record)
        self._end(record, record.of("retired"))
        return Deployed(True, self.see())

    def _check_startable(self, inputs: Inputs) -> None:
        """Raise what would keep a new replica from being started, before the only one is ended for it."""
        ports = [self._service.port] * (1 + len(self._service.further_ports))
        replica = Replica(id=_new_id(), plan=self._plan.tag(), ports=ports, state="starting")
        self._jobs.check(inputs(replica_request(self._plan, self._service, replica)))

    def _recorded(self, record: ServiceRecord, steps: Steps) -> tuple[ServiceRecord, list[Replica]]:
        """Return the record with new replicas, whose ports are reserved, and those that are to be started."""
        own = [self._service.port] if self._service.front == "none" else []
        counts = {_new_id(): 1 + len(self._service.further_ports) - len(own) for _ in range(steps.new)}
        new = [
            Replica(id=identity, plan=self._plan.tag(), ports=[*own, *ports], state="starting")
            for identity, ports in zip(counts, self._host.reserve(counts), strict=True)
        ]
        self._own = new
        if new:
            record = self._write(record.model_copy(update={"replicas": [*record.replicas, *new]}))
        adopted = {r.id for r in steps.adopt}
        return record, [r for r in record.replicas if r.id in adopted] + new

    def _start(self, record: ServiceRecord, fresh: Sequence[Replica], inputs: Inputs) -> None:
        """Start replicas and wait until they are ready; end all of them where that fails."""
        if not fresh:
            return
        requests = [replica_request(self._plan, self._service, replica) for replica in fresh]
        try:
            outcomes = self._jobs.present_all([inputs(request) for request in requests])
            if failed := next((item for item in outcomes if isinstance(item, ModakError)), None):
                raise failed
            seen = self._await([self._probe(replica) for replica in fresh], self._service.start_limit, times=2)
            for item, present in zip(seen, outcomes, strict=True):
                if not item.ready and isinstance(present, Present):
                    raise self._not_ready(item, present)
        except ChangedError:
            raise
        except ModakError:
            self._end(record, fresh)
            raise

    def _not_ready(self, seen: Readiness, present: Present) -> JobError:
        limit, health = self._service.start_limit, self._service.health
        what = f"GET {health} of the new replica was" if self._service.is_http else "the new replica's port was"
        again = f"; the program was started again {seen.restarts} time(s)" if seen.restarts else ""
        taken = ", since a process of another user listens there" if seen.foreign else ""
        text = f"{what} not ready within {limit} s{taken}{again}; it is ended"
        log = tail(self._transport, present.job.spec.output, _LOG_LINES)
        shown = _quoted(log.text if log else "")
        return JobError(f"{self._plan.name}: {text}" + (f"\nThe last lines of its log:{shown}" if shown else ""))

    # --- the proxy ---

    def _forget_ended(self, front: FrontRecord) -> None:
        """Remove the job of a proxy that has ended, so that it can be started again."""
        (now,) = self._host.ready([self._front_probe(front)], "tcp")
        if not now.runs:
            self._jobs.absent(removal_request(self._plan, front.id))

    def _switch_from(
        self, before: FrontRecord | None, record: ServiceRecord, front: FrontRecord, looked: Looked
    ) -> None:
        """Switch the proxy; where it goes on at the port that it had ``before``, that is the recorded one again.

        Else that port, which the proxy has open, would be taken for another program's, and nothing lead back to it.
        """
        try:
            self._switch(record, front, looked)
        except _NotLoadedError:
            if before is not None and before != front:
                self._write(record.model_copy(update={"front": before}))
            raise

    def _switch(self, record: ServiceRecord, front: FrontRecord, looked: Looked) -> bool:
        """Have the proxy lead clients to the serving replicas; return whether it did something else before."""
        program = looked.haproxy
        if program is None:
            raise no_haproxy(self._plan)
        argv = [program, "-W", "-db", "-f", f"{looked.directory}/front/haproxy.cfg"]
        request = front_request(self._plan, front.id, argv)
        text = configuration(record, front, self._service, looked.directory)
        outcome, said = self._host.front(text, record.revision, program, request)
        if outcome == "placed":
            self._jobs.present(request)
            current = self._host.look().record
            if current is None or current.front is None or current.front.id != front.id:
                self._jobs.absent(request)
                raise self._host.changed()
            self._await([self._front_probe(front)], self._service.start_limit)
        if outcome in ("invalid", "stays"):
            why = "refuses its configuration" if outcome == "invalid" else "does not load its new configuration"
            text = f"{self._plan.name}: HAProxy {why}; clients reach what they reached before{_quoted(said)}"
            raise _NotLoadedError(text)
        return outcome in ("placed", "switched")

    def _check_front(self, front: FrontRecord) -> None:
        """Raise JobError where clients are not answered through the proxy."""
        probe = self._front_probe(front)
        (seen,) = self._await([probe], self._service.start_limit)
        if seen.ready:
            return
        log = tail(self._transport, self._output_of(probe.request), _LOG_LINES)
        shown = _quoted(log.text if log else "")
        raise JobError(f"{self._plan.name}: {front.address}:{front.port} does not answer; HAProxy's log:{shown}")

    def _output_of(self, request: JobRequest) -> str:
        workspace = self._host.look().directory.rpartition("/")[0].rpartition("/")[0]
        return f"{workspace}/runs/{folder_name(request)}/output.log"

    def _drain(self, front: FrontRecord, record: ServiceRecord) -> None:
        """Wait until requests at replicas that are retired are completed, at most for the service's time."""
        if not record.of("retired"):
            return
        end = self._clock() + self._service.drain
        request = removal_request(self._plan, front.id)
        while (left := end - self._clock()) > 0:
            if self._host.drain(request, min(left, LONGEST)):
                return
        self._notice(f"{self._plan.name}: requests at the old replicas took longer than {self._service.drain} s")

    # --- the end ---

    def absent(self, *, check: bool = False) -> list[str]:
        """End all that belongs to the service and remove it from the target; return what there was, for people."""
        gone: list[str] = []
        for _ in range(_ROUNDS):
            looked = self._host.look()
            if looked.record is None:
                if not check:
                    self._host.remove(0)
                return gone
            gone = gone or _listed(looked)
            if check:
                return gone
            self._end_all(looked.record)
            if self._host.remove(looked.record.revision):
                self._end_all(looked.record)  # what another run, which had read this record, has started meanwhile
                return gone
        raise ChangedError(f"another run changes the service {self._plan.name}", hint="undeploy it again")

    def _end_all(self, record: ServiceRecord) -> None:
        if record.front is not None:
            self._jobs.absent(removal_request(self._plan, record.front.id))
        for replica in record.replicas:
            self._jobs.absent(self._request(replica))

    def _end(self, record: ServiceRecord, ended: Sequence[Replica], *, gently: bool = False) -> ServiceRecord:
        """End replicas, then strike them off the record, and return that."""
        if not ended:
            return record
        for replica in ended:
            if gently:
                self._host.stop(self._request(replica), self._service.drain)
            self._jobs.absent(self._request(replica))
        return self._write(record.without(list(ended)))

    def _end_unrecorded(self) -> None:
        """End what this run may have started where another one has taken the service over, or has undeployed it."""
        current = self._host.look().record
        ids = {r.id for r in current.replicas} if current is not None else set()
        for replica in self._own:
            if replica.id not in ids:
                self._jobs.absent(self._request(replica))

    def _forget_empty(self) -> None:
        """Remove the folder of a service whose first deployment has failed."""
        record = self._host.look().record
        if record is not None and not record.replicas and record.front is None:
            self._host.remove(record.revision)

    def _write(self, record: ServiceRecord) -> ServiceRecord:
        return self._host.write(record, record.revision)


def _new_id() -> str:
    return secrets.token_hex(8)


def _quoted(text: str) -> str:
    """Return the end of what a program has printed, each line below the last sentence and as long as may be read."""
    lines = [line for line in text.split("\n") if line.strip()]
    return "".join(f"\n    | {visible(line[:_LOG_WIDTH])}" for line in lines[-_LOG_LINES:])


def _listed(looked: Looked) -> list[str]:
    record = looked.record
    if record is None:
        return []
    ids = [f"replica {replica.id} on port {replica.port}" for replica in record.replicas]
    front = [] if record.front is None else [f"the front on port {record.front.port}"]
    return [*front, *ids, f"the folder {looked.directory}"]
