"""The jobs that a service consists of: one for each replica, and one for the proxy before them."""

from collections.abc import Sequence
from dataclasses import replace

from modak_deploy.jobrequest import request_of
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.model.request import JobOptions
from modak_deploy.model.service import Service
from modak_deploy.services.record import Replica, tag_of


def replica_request(plan: Plan, service: Service, replica: Replica) -> JobRequest:
    """Return the job of a replica: the Plan's program, with the replica's ports in arguments and environment."""
    request = request_of(plan)
    ports = dict(zip(["port", *service.further_ports], replica.ports, strict=True))
    environment = {"PORT" if name == "port" else f"PORT_{name.upper()}": str(port) for name, port in ports.items()}
    return replace(
        request,
        tag=tag_of(plan.name, replica.id),
        argv=[_with_ports(argument, ports) for argument in request.argv],
        environment={**request.environment, **environment},
        supervised=True,
    )


def front_request(plan: Plan, identity: str, argv: Sequence[str] = ()) -> JobRequest:
    """Return the job of the proxy; without ``argv`` it can be looked for and removed only."""
    return JobRequest(
        name=plan.name,
        tag=tag_of(plan.name, identity),
        scheduler=plan.scheduler,
        target=plan.target,
        options=JobOptions(),
        argv=list(argv),
        supervised=True,
    )


def removal_request(plan: Plan, identity: str) -> JobRequest:
    """Return what leads to the job of a replica or a proxy, whatever it runs."""
    return front_request(plan, identity)


def _with_ports(argument: str, ports: dict[str, int]) -> str:
    for name, port in ports.items():
        argument = argument.replace(f"{{{name}}}", str(port))
    return argument
