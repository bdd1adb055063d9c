"""What of a Plan a Job of Kubernetes can do, and the image as its node pulls it."""

from modak_deploy.errors import InputError, OptionError
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.model.reference import parse
from modak_deploy.model.target import Facts, Target

_SUPPORTED = frozenset(
    {
        *("name", "wall_time", "nodes", "ranks", "ranks_per_node", "cores_per_rank", "threads", "memory"),
        *("memory_per_core", "gpus", "array", "environment", "retry", "mpi_launcher", "mpi"),
    }
)
"""Options of a job that have a place in a Job of Kubernetes, or are about ranks, of which it has one."""
_AS_DOCKER = "20.10"
"""A release of Docker that runs all images that Kubernetes' own runtimes run; theirs is not asked for."""


def facts_of(target: Target) -> Facts:
    """Return what is known of a cluster without asking: the nodes as described, and that they run images."""
    return Facts() if target.node is None else Facts(node=target.node, runtimes={"docker": _AS_DOCKER})


def check_plan(plan: Plan, request: JobRequest) -> None:
    """Raise InputError for what an indexed Job cannot do, OptionError for an option of the job."""
    if plan.restart is not None:
        raise InputError(
            "restart trials are not supported by Kubernetes", key="request.trials", hint="plan with 'live' or 'none'"
        )
    if request.resources.nodes > 1 or request.resources.ranks > 1:
        raise InputError(
            f"{request.resources.ranks} ranks on {request.resources.nodes} nodes are not supported by Kubernetes",
            key="job",
            hint="plan for one node with one rank; an array 0-N runs independent tasks",
        )
    if (name := plan.job.first_beyond(_SUPPORTED)) is not None:
        raise OptionError("not supported by Kubernetes", key=f"job.{name}", hint="leave it out, and plan again")


def image_of(request: JobRequest) -> str:
    """Return the image as a node pulls it, by its digest."""
    if request.image is None:
        raise InputError(
            f"the Plan's candidate '{request.candidate}' runs in no image",
            key="chosen.image",
            hint="name 'application.image', or 'request.runtimes: [docker]', and plan again",
        )
    reference = parse(request.image.reference)
    if reference.scheme != "docker":
        raise InputError(
            f"the image '{request.image.reference}' cannot be pulled by Kubernetes",
            key="chosen.image",
            hint="use an image of a registry, docker://HOST/NAME@sha256:...; push one that was built with modak image",
        )
    digest = reference.digest or request.image.digest
    if digest is None:
        raise InputError(
            f"the image '{request.image.reference}' has no digest", key="chosen.image", hint="modak image inspect"
        )
    return str(reference.pinned(digest)).removeprefix("docker://")
