"""The whole answer of a target as Facts."""

from collections.abc import Collection

from pydantic import ValidationError

from modak_deploy.discovery.filesystems import parse_file_systems
from modak_deploy.discovery.hardware import of_session, parse_node
from modak_deploy.discovery.probe import Answer, split
from modak_deploy.discovery.software import (
    parse_glibc,
    parse_libraries,
    parse_mpi,
    parse_mpi_types,
    parse_packages,
    parse_runtimes,
)
from modak_deploy.errors import TargetError
from modak_deploy.model.target import Facts, Node, Partition, Target
from modak_deploy.reported import host_name
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import Recognised
from modak_deploy.schedulers.detect import recognised
from modak_deploy.schedulers.states import message
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Completed

_TIMED_OUT = 124


def parse_probe(text: str, target: Target | None, *, libraries: Collection[str] | None = None) -> Facts:
    """Return the facts in the output of ``probe_script``; of the shared libraries only ``libraries`` when given.

    For a cluster the node is one of the default partition's. TargetError when the answer was cut off, when the
    scheduler that the target is said to have does not answer, and when a machine's Python does not exist.
    """
    answer = split(text)
    try:
        return _facts(answer, target, libraries)
    except ValidationError as error:
        fault = error.errors()[0]
        folder = ".".join(str(part) for part in fault["loc"])
        value, why = excerpt(str(fault["input"])), excerpt(fault["msg"])
        raise TargetError(f"the target reports a {folder} that is not valid: '{value}': {why}") from None


def _facts(answer: Answer, target: Target | None, libraries: Collection[str] | None) -> Facts:
    host, own = answer.line("host"), parse_node(answer)
    scheduler = _scheduler(answer, target)
    partitions = registry.get(scheduler.name).partitions(answer, own) if scheduler else []
    return Facts(
        hostname=None if host is None else host_name(host),
        scheduler=scheduler.name if scheduler else None,
        scheduler_version=scheduler.version if scheduler else None,
        wrapped=scheduler is not None and scheduler.wrapped,
        node=_node(partitions) if scheduler else of_session(own, answer),
        partitions=partitions,
        node_kinds=registry.get(scheduler.name).node_kinds(answer) if scheduler else {},
        glibc=parse_glibc(answer),
        libraries=parse_libraries(answer["ldconfig"], libraries),
        runtimes=parse_runtimes(answer),
        mpi=parse_mpi(answer),
        mpi_types=parse_mpi_types(answer["srun"]),
        file_systems=parse_file_systems(answer),
        python=_python(answer, target, scheduler),
        packages=parse_packages(answer["packages"]),
    )


def _scheduler(answer: Answer, target: Target | None) -> Recognised | None:
    """Return the scheduler that answered; one of another type than the target's is not asked for an answer.

    Where none is expected, one that has commands there and belongs to no cluster does not count.
    """
    if target is not None and target.kind.single_node:
        return None
    for facts in recognised(answer, expected=target.type if target else ""):
        if target is not None and target.type != facts.name and not facts.wrapped:
            return facts
        if _answers(facts.name, answer, target):
            return facts
    return None


def _answers(name: str, answer: Answer, target: Target | None) -> bool:
    """Return whether the scheduler has a cluster; TargetError where its commands do not answer."""
    scheduler = registry.get(name)
    for query in scheduler.queries:
        if code := answer.codes.get(query, 0):
            text = answer[query]
            if target is None and scheduler.no_cluster and scheduler.no_cluster in text:
                return False
            reason = message(Completed(code, text, ""), scheduler.query_prefixes)
            reason = "no answer in time" if code == _TIMED_OUT else reason
            is_here = target is not None and target.host is None
            hint = "target.host names a cluster's login node; without it, it is this machine" if is_here else ""
            raise TargetError(f"{name} does not answer on {answer.line('host')}: {reason}", hint=hint)
    return True


def _node(partitions: list[Partition]) -> Node:
    """Return the default partition's node; what the login node has is nothing that jobs can use."""
    if not partitions:
        return Node()
    return next((p.node for p in partitions if p.default), partitions[0].node if len(partitions) == 1 else Node())


def _python(answer: Answer, target: Target | None, scheduler: Recognised | None) -> str | None:
    """Return the Python that was found; on a cluster it may be one that only the compute nodes can run."""
    python = answer.line("python")
    if python is None or "python-runs" in answer.parts:
        return python
    if target is not None and target.python is not None and (folder := answer.line("python-forbidden")):
        host = answer.line("host")
        raise TargetError(
            f"{python} cannot be executed on {host}: {folder} does not permit it to this user", key="target.python"
        )
    if scheduler and python.startswith("/"):
        return python if "packages" in answer.parts else None
    if target is not None and target.python is not None:
        raise TargetError(
            f"{python} is not a program on {answer.line('host')}",
            key="target.python",
            hint="give the absolute path of a Python there",
        )
    return None
