"""Which targets and options a service is supported on and with."""

from modak_deploy.diagnostics import Key
from modak_deploy.errors import OptionError
from modak_deploy.model.plan import Plan

_SUPPORTED = frozenset(
    {
        *("name", "nodes", "ranks", "ranks_per_node", "cores_per_rank", "threads", "gpus", "join_output", "output"),
        *("error", "environment", "modules", "pre_execution", "retry", "export_environment", "mpi", "mpi_launcher"),
    }
)
"""Options of a job that replicas have too."""


def check_service(plan: Plan) -> None:
    """Raise OptionError where the Plan's target runs no services, or for an option that they do not have."""
    target, job = plan.target, plan.job
    if not (target.kind.single_node and target.kind.has_login):  # others connect to its ports
        raise OptionError(
            f"not supported by a target of type {target.type}",
            key="application.service",
            hint="use a target of type machine or cloud",
        )
    if taken := [name for name in job.environment if name == "PORT" or name.startswith("PORT_")]:
        raise OptionError(f"'{taken[0]}' cannot be set: it is the number of a port", key="job.environment")
    if (name := job.first_beyond(_SUPPORTED)) is not None:
        raise OptionError("not supported for a service, which does not end", key=f"job.{name}", hint="leave it out")
    if plan.chosen.resources.ranks > 1:
        raise OptionError(
            f"{plan.chosen.resources.ranks} ranks are not supported for a service",
            key="job.ranks",
            hint=("several replicas are ", Key("application.service.replicas")),
        )
    if plan.request.restart_budget is not None or plan.request.surveys:
        raise OptionError("trials before the run and surveys are not supported for a service", key="request.trials")
