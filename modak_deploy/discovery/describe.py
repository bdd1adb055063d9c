"""What was found on a target, written down as the section of a document that describes it."""

import re
from typing import Any

import yaml

from modak_deploy.model.target import Accelerator, Facts, Partition, Target
from modak_deploy.schedulers import registry


def target_of(facts: Facts, address: Target, name: str | None = None) -> Target:
    """Return the target that ``facts`` tell of, reached by the host, user and port of ``address``.

    Its name is the host's where none is given.
    """
    return Target(
        name=name or _name(address.host or facts.hostname or "localhost"),
        type=facts.scheduler or "machine",
        host=address.host,
        user=address.user,
        port=address.port,
        gpu_spelling=gpu_spelling(facts),
        node=None if facts.scheduler else facts.node,
        partitions=facts.partitions,
    )


def section(target: Target) -> dict[str, Any]:
    """Return the section ``target`` of a document; what is unknown, or as usual, is left out."""
    described = target.model_dump(mode="json", exclude_defaults=True)
    return {"name": target.name, "type": target.type, **described}


def describe(target: Target) -> str:
    """Return the YAML text of the document with that section."""
    data = {"target": section(target)}
    return yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True, default_flow_style=None)


def gpu_spelling(facts: Facts) -> str | None:
    """Return how a job asks for GPUs where it must name their kind; None where the usual request will do."""
    if facts.scheduler is None:
        return None
    return registry.get(facts.scheduler).gpu_spelling([gpu.model for gpu in _gpus(facts.partitions)])


def _gpus(partitions: list[Partition]) -> list[Accelerator]:
    return [gpu for partition in partitions for gpu in partition.node.accelerators]


def _name(host: str) -> str:
    """Return ``host`` as a target may be named."""
    text = re.sub(r"[^A-Za-z0-9_.-]", "-", host)
    return (text if text[:1].isalpha() else f"target-{text}")[:63]
