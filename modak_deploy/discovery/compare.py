"""A target as its user describes it, against what was found on it."""

from collections.abc import Iterator, Sequence
from typing import Any

from modak_deploy.model.target import Accelerator, Facts, Node, Partition, Target

_OF_PARTITION = ("default", "available", "nodes", "maximum_wall_time")
_OF_NODE = ("cores", "memory", "microarchitecture", "cpu_model")


def differences(target: Target, facts: Facts) -> list[str]:
    """Return one sentence for each thing that ``target`` says otherwise than it was found; what is unknown is no such.

    What the description leaves out is found on the target each time, and compared with nothing.
    """
    return list(_differences(target, facts))


def _differences(target: Target, facts: Facts) -> Iterator[str]:
    if not target.kind.single_node and target.type != facts.scheduler:
        yield _sentence("target.type", target.type, facts.scheduler or "no scheduler")
        return
    if target.node is not None:
        yield from _node("target.node", target.node, facts.node)
    by_name = {partition.name: partition for partition in facts.partitions}
    for number, described in enumerate(target.partitions):
        key = f"target.partitions[{number}]"
        if described.name not in by_name:
            yield f"{key}: partition '{described.name}' not found; there are {', '.join(sorted(by_name)) or 'none'}"
            continue
        yield from _fields(key, described, by_name[described.name], _OF_PARTITION)
        yield from _node(f"{key}.node", described.node, by_name[described.name].node)
    if target.mpi_type is not None and facts.mpi_types and target.mpi_type not in facts.mpi_types:
        yield f"target.mpi_type: srun does not support {target.mpi_type}; it supports {', '.join(facts.mpi_types)}"
    permitted = set(target.runtimes or ()) - {"native"}
    for runtime in sorted(permitted - set(facts.runtimes)):
        yield f"target.runtimes: {runtime} not found"


def _node(key: str, described: Node, reported: Node) -> Iterator[str]:
    yield from _fields(key, described, reported, _OF_NODE)
    missing = sorted(set(described.cpu_features) - set(reported.cpu_features))
    if missing and reported.cpu_features:
        yield f"{key}.cpu_features: the processor does not show {', '.join(missing)}"
    if "accelerators" in described.model_fields_set and _count(described.accelerators) != _count(reported.accelerators):
        yield _sentence(f"{key}.accelerators", _count(described.accelerators), _count(reported.accelerators))


def _fields(key: str, described: Node | Partition, reported: Node | Partition, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        said, is_so = getattr(described, name), getattr(reported, name)
        if name in described.model_fields_set and None not in (said, is_so) and said != is_so:
            yield _sentence(f"{key}.{name}", said, is_so)


def _count(accelerators: Sequence[Accelerator]) -> int:
    return sum(accelerator.count for accelerator in accelerators)


def _sentence(key: str, described: Any, reported: Any) -> str:
    return f"{key}: the description says {described}, and {reported} was found"
