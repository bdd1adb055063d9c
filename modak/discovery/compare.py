"""A target as its user describes it, against what was found on it."""

from collections.abc import Iterator, Sequence
from typing import Any

from modak.model.target import SINGLE_NODE, Accelerator, Facts, Node, Partition, Target

_OF_PARTITION = ("default", "available", "nodes", "maximum_wall_time")
_OF_NODE = ("cores", "memory", "microarchitecture", "cpu_model")


def differences(target: Target, facts: Facts) -> list[str]:
    """Return one sentence for each thing that ``target`` says otherwise than it was found; what is unknown is no such.

    What the description leaves out is found on the target each time, and compared with nothing.
    """
    return list(_differences(target, facts))


def _differences(target: Target, facts: Facts) -> Iterator[str]:
    if target.type not in (*SINGLE_NODE, facts.scheduler):
        yield _sentence("target.type", target.type, facts.scheduler or "no scheduler")
        return
    if target.node is not None:
        yield from _node("target.node", target.node, facts.node)
    by_name = {partition.name: partition for partition in facts.partitions}
    for number, told in enumerate(target.partitions):
        place = f"target.partitions[{number}]"
        if told.name not in by_name:
            yield f"{place}: there is no partition '{told.name}'; there are {', '.join(sorted(by_name)) or 'none'}"
            continue
        yield from _fields(place, told, by_name[told.name], _OF_PARTITION)
        yield from _node(f"{place}.node", told.node, by_name[told.name].node)
    if target.mpi_type is not None and facts.mpi_types and target.mpi_type not in facts.mpi_types:
        yield f"target.mpi_type: srun knows no {target.mpi_type}; it knows {', '.join(facts.mpi_types)}"
    permitted = set(target.runtimes or ()) - {"native"}
    for runtime in sorted(permitted - set(facts.runtimes)):
        yield f"target.runtimes: {runtime} was not found"


def _node(place: str, told: Node, found: Node) -> Iterator[str]:
    yield from _fields(place, told, found, _OF_NODE)
    missing = sorted(set(told.cpu_features) - set(found.cpu_features))
    if missing and found.cpu_features:
        yield f"{place}.cpu_features: the processor does not show {', '.join(missing)}"
    if "accelerators" in told.model_fields_set and _count(told.accelerators) != _count(found.accelerators):
        yield _sentence(f"{place}.accelerators", _count(told.accelerators), _count(found.accelerators))


def _fields(place: str, told: Node | Partition, found: Node | Partition, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        said, is_so = getattr(told, name), getattr(found, name)
        if name in told.model_fields_set and None not in (said, is_so) and said != is_so:
            yield _sentence(f"{place}.{name}", said, is_so)


def _count(accelerators: Sequence[Accelerator]) -> int:
    return sum(accelerator.count for accelerator in accelerators)


def _sentence(place: str, told: Any, found: Any) -> str:
    return f"{place}: the description says {told}, and {found} was found"
