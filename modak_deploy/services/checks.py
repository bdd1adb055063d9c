"""What a service needs of its host, checked before anything is changed there."""

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.services.front import probed
from modak_deploy.services.host import Host, Probe
from modak_deploy.services.replica import removal_request
from modak_deploy.services.steps import Seen, service_of


def check_host(host: Host, plan: Plan, seen: Seen) -> None:
    """Raise InputError for what the host lacks, and for what cannot be changed of a service that is there."""
    service, name = service_of(plan), plan.target.name
    if not seen.looked.has_proc:
        raise TargetError(f"{name} has no /proc with processes and ports: services need Linux")
    if service.is_http and not seen.looked.tools:
        raise InputError(
            f"health is an HTTP request, and {name} has none of curl, wget and bash",
            key="application.service.health",
            hint="install curl there, or write 'health: tcp'",
        )
    if service.front == "haproxy" and seen.looked.haproxy is None:
        raise no_haproxy(plan)
    if seen.record.of("serving") and (seen.record.front is None) != (service.front == "none"):
        raise InputError(
            "cannot be changed while the service runs", key="application.service.front", hint="undeploy it first"
        )
    _check_port(host, plan, seen)


def no_haproxy(plan: Plan) -> InputError:
    """Return the error of a host without the proxy."""
    return InputError(
        f"haproxy not found on {plan.target.name}",
        key="application.service.front",
        hint="install the package haproxy there, or write 'front: none'; then requests fail during a replacement",
    )


def _check_port(host: Host, plan: Plan, seen: Seen) -> None:
    """Raise InputError where another program listens on the service's port."""
    service, record = service_of(plan), seen.record
    own = {record.front.port} if record.front is not None else set()
    own |= {replica.port for replica in record.replicas}
    if service.port in own:
        return
    probe = Probe(probed(service.address), service.port, removal_request(plan, "0" * 16))
    (there,) = host.ready([probe], "tcp")
    if there.listens:
        raise InputError(
            f"another program listens on port {service.port} of {plan.target.name}",
            key="application.service.port",
            hint="end it, or choose another port",
        )
