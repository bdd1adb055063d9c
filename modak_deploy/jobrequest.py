"""From a Plan to the job that it asks for. A module of its own: jobs are looked after without loading the optimiser."""

from dataclasses import dataclass
from importlib.resources import files

from modak_deploy.errors import InputError
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Candidate, Plan

LAUNCHERS = "launchers"
"""Folder of the wrappers that start a script, in the working directory and in the catalogue's data."""


@dataclass(frozen=True)
class PlanDocument:
    """A Plan as a job's document."""

    plan: Plan

    @property
    def text(self) -> bytes:
        """See ``Document.text``."""
        return self.plan.to_json().encode()

    def describes(self, text: bytes) -> bool:
        """See ``Document.describes``: that Plan may be newer, and tell more of why."""
        try:
            return Plan.model_validate_json(text).tag() == self.plan.tag()
        except ValueError:
            return False


def job_request(plan: Plan) -> JobRequest:
    """Return the Plan's job; InputError for a service, which is no job, and for a launcher that is not there."""
    if plan.application.service is not None:
        raise InputError(
            f"'{plan.application.name}' is a service, and not a job",
            key="application.service",
            hint="the playbooks deploy and undeploy, modak deploy|undeploy|status|logs and the module "
            "modak.deploy.service support services",
        )
    return request_of(plan)


def request_of(plan: Plan) -> JobRequest:
    """Return how the Plan's program is run: its job, or what a service's replicas have in common."""
    chosen, application = plan.chosen, plan.application
    return JobRequest(
        name=plan.name,
        tag=plan.tag(),
        scheduler=plan.scheduler,
        target=plan.target,
        options=plan.job,
        argv=chosen.argv,
        resources=chosen.resources,
        rank_start=chosen.rank_start,
        runtime=chosen.runtime,
        image=chosen.image,
        environment=application.environment,
        secret_environment=frozenset(application.secret_environment),
        lever_environment=chosen.environment,
        preload=chosen.preload,
        launch=chosen.launch,
        restart=plan.restart,
        progress=application.progress,
        units=application.workload.units if application.workload.units > 1 else None,
        candidate=chosen.name,
        sources=plan.sources,
        programs=_launcher(chosen),
        outputs=application.outputs,
        metrics=application.metrics,
        document=PlanDocument(plan),
    )


def _launcher(chosen: Candidate) -> dict[str, bytes]:
    """Return the wrapper that starts the script, by its path below the working directory."""
    name = chosen.launcher
    if name is None:
        return {}
    if chosen.launcher_text is not None:
        return {f"{LAUNCHERS}/{name}": chosen.launcher_text.encode()}
    file = files("modak_deploy.catalogue").joinpath("data", LAUNCHERS, name)
    if "/" in name or name.startswith(".") or not file.is_file():
        raise InputError(f"the plan's launcher '{name}' is not one that modak ships")
    return {f"{LAUNCHERS}/{name}": file.read_bytes()}
