"""Plans of services, and what a host reports of them, for the tests."""

from pathlib import Path
from typing import Any

from jobplans import plan
from modak_deploy.model.plan import Plan
from modak_deploy.model.service import Service
from modak_deploy.services.host import Looked, Readiness
from modak_deploy.services.record import FrontRecord, Replica, ServiceRecord
from modak_deploy.services.steps import Seen

READY = Readiness(ready=True, runs=True, listens=True)
GONE = Readiness(ready=False, runs=False, listens=False)


def service_plan(workspace: Path, *argv: str, name: str = "probe", **service: Any) -> Plan:
    """Return the Plan of a service that runs ``argv`` on this machine."""
    made = plan(list(argv) or ["server", "{port}"], workspace, name=name)
    values = {"port": 18080, **service}
    return made.model_copy(
        update={"application": made.application.model_copy(update={"service": Service.model_validate(values)})}
    )


def replica(number: int, made: Plan, state: str = "serving", **changes: Any) -> Replica:
    """Return the record of a replica."""
    values = {"id": f"{number:016x}", "plan": made.tag(), "ports": [20000 + number], "state": state, **changes}
    return Replica.model_validate(values)


def seen(
    made: Plan, *replicas: Replica, gone: tuple[int, ...] = (), front: Readiness | None = READY, port: int = 18080
) -> Seen:
    """Return a service as it is seen; the replicas with the numbers ``gone`` do not run."""
    fronted = FrontRecord(id="f" * 16, address="127.0.0.1", port=port) if front is not None else None
    record = ServiceRecord(name=made.name, revision=1, front=fronted, replicas=list(replicas))
    looked = Looked("/home/u/.modak/services/probe", record, "/usr/sbin/haproxy", True, frozenset({"curl"}))
    ids = {f"{number:016x}" for number in gone}
    readiness = {r.id: GONE if r.id in ids else READY for r in replicas if r.state != "retired"}
    return Seen(looked, record, readiness, front)
