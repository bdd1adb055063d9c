"""Services: what the commands and the action plugins do with a Plan for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from modak_deploy.deploy.running import Deployer, RunSettings
from modak_deploy.errors import InputError
from modak_deploy.jobrequest import request_of
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.job import folder_name, specification
from modak_deploy.jobs.output import tail
from modak_deploy.model.plan import Plan
from modak_deploy.model.service import ReplicaResult, ServiceResult
from modak_deploy.services.life import Services
from modak_deploy.services.replica import removal_request
from modak_deploy.services.steps import Seen, service_of
from modak_deploy.terminal import visible
from modak_deploy.transport.base import Transport


def is_service(plan: Plan) -> bool:
    """Return whether the Plan's application runs until it is undeployed."""
    return plan.application.service is not None


@dataclass(frozen=True)
class ServicePreview:
    """What a deployment would do, and the service that is there."""

    sentences: Sequence[str]
    service: ServiceResult | None


@dataclass(frozen=True)
class ServiceOutcome:
    """What a deployment has done, and the service that is there then."""

    changed: bool
    service: ServiceResult


class ServiceRun:
    """The service of a Plan on the Plan's target."""

    def __init__(self, plan: Plan, transport: Transport, jobs: Jobs) -> None:
        self.plan = plan
        self._transport = transport
        self._services = Services(transport, jobs, plan, notice=jobs.notice)

    def preview(self, settings: RunSettings) -> ServicePreview:
        """Return what ``run`` would do; nothing is changed."""
        _check(settings)
        sentences = self._services.preview(again=settings.restarted)
        return ServicePreview(sentences, self.see())

    def run(self, deployer: Deployer, settings: RunSettings) -> ServiceOutcome:
        """Have the service as the Plan describes it; one that is so stays, after a check that clients are answered."""
        _check(settings)
        inputs = partial(deployer.input_of, self.plan)
        deployed = self._services.deploy(inputs, again=settings.restarted)
        return ServiceOutcome(deployed.changed, self._result(deployed.seen))

    def see(self) -> ServiceResult | None:
        """Return the service as it is seen; None where there is none."""
        seen = self._services.see()
        return None if seen.looked.record is None else self._result(seen)

    def remove(self, *, check: bool = False) -> list[str]:
        """End the service and remove it from the target; return what there was."""
        return self._services.absent(check=check)

    def logs(self, lines: int) -> str:
        """Return the last lines of each replica's output, each after a line with its name where there are several."""
        there = self.see()
        if there is None:
            raise InputError(f"{self.plan.name} is not on {self.plan.target.name}", hint="deploy its document")
        texts = []
        for replica in there.replicas:
            log = tail(self._transport, specification(request_of(self.plan), replica.directory).output, lines)
            head = f"--- replica {replica.id}, {replica.state}\n" if len(there.replicas) > 1 else ""
            texts.append(head + (log.text if log is not None else ""))
        return "".join(text if text.endswith("\n") or not text else f"{text}\n" for text in texts)

    def _result(self, seen: Seen) -> ServiceResult:
        workspace = seen.looked.directory.rpartition("/")[0].rpartition("/")[0]
        replicas = []
        for replica in seen.record.replicas:
            readiness = seen.replicas.get(replica.id)
            folder = folder_name(removal_request(self.plan, replica.id))
            replicas.append(
                ReplicaResult(
                    id=replica.id,
                    port=replica.port,
                    state=replica.state,
                    ready=readiness is not None and readiness.ready,
                    restarts=0 if readiness is None else readiness.restarts,
                    directory=f"{workspace}/runs/{folder}",
                )
            )
        serving = [item for item in replicas if item.state == "serving"]
        front = seen.front is None or seen.front.ready
        return ServiceResult(
            name=self.plan.name,
            url=url_of(self.plan),
            ready=front and any(item.ready for item in serving),
            revision=seen.record.revision,
            directory=seen.looked.directory,
            replicas=replicas,
        )


def url_of(plan: Plan) -> str:
    """Return the address of a service for clients; one that is open on all addresses has the target's host name."""
    service = service_of(plan)
    host = service.address
    if host in ("0.0.0.0", "::"):  # noqa: S104
        host = plan.target.host or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{'http' if service.is_http else 'tcp'}://{host}:{service.port}"


def described(service: ServiceResult) -> str:
    """Return one line on a service, safe to be shown."""
    ready = sum(replica.ready for replica in service.replicas)
    state = "ready" if service.ready else "not ready"
    return visible(f"{service.url} is {state}: {ready} of {len(service.replicas)} replicas")


def _check(settings: RunSettings) -> None:
    """Raise InputError for what a service has not."""
    hint = "it is waited for until it is ready"
    if not settings.wait:
        raise InputError("false is not supported for a service", key="wait", hint=hint)
    if settings.timeout:
        raise InputError("not supported for a service", key="timeout", hint="set application.service.start_limit")
    for key in ("record", "retry", "follow", "template"):
        if getattr(settings, key):
            raise InputError("not supported for a service", key=key, hint="leave it out")
