"""A target as its user describes it, against what was found on it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.version import Version

from modak_deploy.model.target import Accelerator, Facts, Node, Partition, Target

_OF_PARTITION = ("default", "available", "nodes", "maximum_wall_time")
_OF_NODE = ("cores", "microarchitecture", "cpu_model")
_KERNEL = 0.05
"""Share of the memory that a kernel keeps for itself, more or less of it from one version to the next."""
_MODEL = re.compile(r"(?!sxm|hbm|gfx)([a-z]{1,3}[0-9]{1,4})([a-z]{0,2})")
"""A word of a GPU's name that tells its model, and the variant of it: a100 and mi250x, not sxm4."""
_PART = re.compile(r"[0-9]+g\.[0-9]+gb")
"""A part of a divided GPU (MIG), by its profile."""


def differences(target: Target, facts: Facts, runtimes: Mapping[str, str] | None = None) -> list[str]:
    """Return one sentence for each thing that ``target`` says otherwise than it was found; what is unknown is no such.

    What the description leaves out is found on the target each time, and compared with nothing. ``runtimes`` are those
    that a site's section ``software`` describes, with their versions.
    """
    return [*_differences(target, facts), *_runtimes(runtimes or {}, facts)]


def _runtimes(described: Mapping[str, str], facts: Facts) -> Iterator[str]:
    for name, version in described.items():
        present = facts.runtimes.get(name)
        if present is None:
            yield f"software.runtimes: {name} not found"
        elif not _is_of(version, present):
            yield _sentence(f"software.runtimes.{name}", version, present)


def _is_of(described: str, present: str) -> bool:
    """Return whether a version is the described one; 3.8.7 is 3.8, and 3.8.7-1, of which only 3.8.7 is asked for."""
    release = Version(described).release
    return Version(present).release[: len(release)] == release


def _differences(target: Target, facts: Facts) -> Iterator[str]:
    if not target.kind.single_node and target.type != facts.scheduler and not facts.wrapped:
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
    if described.memory and reported.memory and abs(described.memory - reported.memory) > _KERNEL * described.memory:
        yield _sentence(f"{key}.memory", described.memory, reported.memory)
    missing = sorted(set(described.cpu_features) - set(reported.cpu_features))
    if missing and reported.cpu_features:
        yield f"{key}.cpu_features: the processor does not show {', '.join(missing)}"
    if "accelerators" not in described.model_fields_set:
        return
    if _count(described.accelerators) != _count(reported.accelerators):
        yield _sentence(f"{key}.accelerators", _count(described.accelerators), _count(reported.accelerators))
    elif _are_others(described.accelerators, reported.accelerators):
        yield _sentence(f"{key}.accelerators", _models(described.accelerators), _models(reported.accelerators))


def _are_others(described: Sequence[Accelerator], reported: Sequence[Accelerator]) -> bool:
    """Return whether GPUs are of another model, or parts of them; a site and a driver spell one differently."""
    ours, theirs = (_models_in(gpus) for gpus in (described, reported))
    if not ours or not theirs:  # a site names none, as in gpu:4
        return False
    parts, present = (set(_PART.findall(_models(gpus).lower())) for gpus in (described, reported))
    return (bool(present) and parts != present) or not any(_alike(a, b) for a in ours for b in theirs)


def _models_in(accelerators: Sequence[Accelerator]) -> list[tuple[str, str]]:
    matches = (_MODEL.fullmatch(name) for name in re.split(r"[\W_]", _models(accelerators).lower()))
    return [(match[1], match[2]) for match in matches if match]


def _alike(model: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether two words may be of one model: one often leaves its variant out, but an A10 is no A100."""
    return model[0] == other[0] and (model[1] == other[1] or "" in (model[1], other[1]))


def _models(accelerators: Sequence[Accelerator]) -> str:
    return ", ".join(accelerator.model for accelerator in accelerators)


def _fields(key: str, described: Node | Partition, reported: Node | Partition, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        said, is_so = getattr(described, name), getattr(reported, name)
        if name in described.model_fields_set and None not in (said, is_so) and said != is_so:
            yield _sentence(f"{key}.{name}", said, is_so)


def _count(accelerators: Sequence[Accelerator]) -> int:
    return sum(accelerator.count for accelerator in accelerators)


def _sentence(key: str, described: Any, reported: Any) -> str:
    return f"{key}: the description says {described}, and {reported} was found"
