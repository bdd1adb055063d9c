"""Nodes and queues of Torque and OpenPBS, from the plain text that both print alike."""

import re
from collections.abc import Mapping, Sequence

from modak_deploy.model.target import Accelerator, Node, Partition
from modak_deploy.numbers import digits
from modak_deploy.util.units import seconds_of, size_of

_MOST = 2**31 - 1


def parse_blocks(text: str) -> dict[str, dict[str, str]]:
    """Return attributes by name of ``pbsnodes -a``, ``qstat -Q -f`` or ``qstat -B -f``; folded lines are joined."""
    blocks: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    last = None
    for line in text.split("\n"):  # and no other character that Python takes for a line's end: a value may hold it
        pair = re.match(r"\s+([\w.]+) = ?(.*)$", line)
        if not line.strip():
            last = None
        elif pair:
            last = pair[1]
            current[last] = pair[2]
        elif line.startswith("\t") and last:
            current[last] += line.strip()
        elif heading := re.match(r"(?:Queue:\s*|Server:\s*)?([!-~]+)\s*$", line):
            current = blocks.setdefault(heading[1], {})
            last = None
        else:  # neither a name nor an attribute: what follows belongs to nothing that is known
            current, last = {}, None
    return blocks


def parse_nodes(text: str) -> list[Node]:
    """Return the nodes of ``pbsnodes -a`` that can take jobs, now or later."""
    return [_node(block) for block in parse_blocks(text).values() if _works(block.get("state", ""))]


def parse_queues(queues: str, server: str, nodes: Sequence[Node]) -> list[Partition]:
    """Return the execution queues of ``qstat -Q -f``; ``server`` is the text of ``qstat -B -f``, with the default.

    No queue says which nodes it uses: each is given the cores of most ``nodes``, and the memory and GPUs of those that
    have most.
    """
    default = next(
        (block["default_queue"] for block in parse_blocks(server).values() if "default_queue" in block), None
    )
    return [
        Partition(
            name=name,
            default=name == default,
            available=_true(block.get("enabled")) and _true(block.get("started")),
            nodes=len(nodes),
            maximum_wall_time=seconds_of(block.get("resources_max.walltime", "")) or None,
            node=typical(nodes),
        )
        for name, block in parse_blocks(queues).items()
        if block.get("queue_type", "Execution").startswith("E")
    ]


def typical(nodes: Sequence[Node]) -> Node:
    """Return one node that stands for all."""
    cores = [node.cores for node in nodes if node.cores]
    return Node(
        cores=max(sorted(set(cores)), key=lambda count: (cores.count(count), count), default=None),
        memory=max((node.memory for node in nodes if node.memory), default=None),
        accelerators=max(
            (node.accelerators for node in nodes), key=lambda matches: sum(gpu.count for gpu in matches), default=[]
        ),
    )


def _node(block: Mapping[str, str]) -> Node:
    # Torque packs what its daemon reports into one attribute.
    # "status = ...,ncpus=2,physmem=24684096kb,..." of 6.1.3.h5; OpenPBS has resources_available.* instead.
    status = dict(pair.split("=", 1) for pair in block.get("status", "").split(",") if "=" in pair)
    cores = block.get("np") or block.get("resources_available.ncpus") or block.get("pcpus") or ""
    memory = block.get("resources_available.mem") or status.get("physmem", "")
    gpus = block.get("gpus") or block.get("resources_available.ngpus") or "0"
    count = digits(gpus, _MOST) or 0
    return Node(
        cores=digits(cores, _MOST) or None,
        memory=size_of(memory) or None,
        accelerators=[Accelerator(model="gpu", count=count)] if count else [],
    )


def _works(state: str) -> bool:
    return not re.search(r"down|offline|unknown|stale|maintenance", state.lower())


def _true(text: str | None) -> bool:
    return (text or "").lower() in ("true", "yes")
