"""What leads from a service as it is seen to the one that its Plan asks for."""

from dataclasses import dataclass, field

from modak_deploy.errors import InputError
from modak_deploy.model.plan import Plan
from modak_deploy.model.service import Service
from modak_deploy.services.host import Looked, Readiness
from modak_deploy.services.record import Replica, ServiceRecord
from modak_deploy.util.text import plural


def service_of(plan: Plan) -> Service:
    """Return what makes the Plan's application a service; InputError where it is none."""
    if plan.application.service is None:
        raise InputError(f"'{plan.application.name}' is a job, and not a service", key="application.service")
    return plan.application.service


@dataclass(frozen=True)
class Seen:
    """A service as it is on its target."""

    looked: Looked
    record: ServiceRecord
    replicas: dict[str, Readiness] = field(default_factory=dict)
    """By the ids of the replicas."""
    front: Readiness | None = None
    """None where there is no proxy."""


@dataclass(frozen=True)
class Steps:
    """What a deployment does to a service as it is seen."""

    keep: list[Replica] = field(default_factory=list)
    """Replicas that serve and stay."""
    adopt: list[Replica] = field(default_factory=list)
    """New ones that a run before has recorded, and perhaps started."""
    discard: list[Replica] = field(default_factory=list)
    """New ones that are not wanted any more; no client was led to them."""
    retire: list[Replica] = field(default_factory=list)
    """Those that are replaced, or that a run before has replaced and not ended."""
    new: int = 0
    """How many more are started."""
    front: bool = False
    """Whether the proxy is started or moved to another port."""

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.adopt or self.discard or self.retire or self.new or self.front)

    def sentences(self) -> list[str]:
        """Return what is to be done, for people."""
        started, ended = len(self.adopt) + self.new, len(self.discard) + len(self.retire)
        parts = [
            (started, f"{plural(started, 'replica')} would be started"),
            (self.front, "the front would be started"),
            (ended, f"{plural(ended, 'replica')} would be ended"),
        ]
        return [text for needed, text in parts if needed]


def steps_to(plan: Plan, seen: Seen, *, again: bool = False) -> Steps:
    """Return what leads from what is seen to what the Plan asks for; with ``again`` every replica is replaced."""
    service, tag, record = service_of(plan), plan.tag(), seen.record

    def fits(replica: Replica) -> bool:
        direct = service.front != "none" or replica.port == service.port
        return replica.plan == tag and len(replica.ports) == 1 + len(service.further_ports) and direct

    serving = [r for r in record.of("serving") if fits(r) and not again]
    healthy = [r for r in serving if r.id in seen.replicas and seen.replicas[r.id].ready]
    keep = healthy[: service.replicas]
    missing = service.replicas - len(keep)
    # One that does not run was not started, or has ended since: another one takes its place.
    adopt = [r for r in record.of("starting") if fits(r) and r.id in seen.replicas and seen.replicas[r.id].runs]
    adopt = adopt[:missing]
    kept = {r.id for r in keep} | {r.id for r in adopt}
    rest = [r for r in record.replicas if r.id not in kept]
    fronted = record.front is not None and (record.front.address, record.front.port) == (service.address, service.port)
    runs = fronted and seen.front is not None and seen.front.runs
    return Steps(
        keep,
        adopt,
        [r for r in rest if r.state == "starting"],
        [r for r in rest if r.state != "starting"],
        missing - len(adopt),
        service.front != "none" and not runs,
    )
