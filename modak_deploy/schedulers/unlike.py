"""Partitions and queues whose nodes are unlike: which kinds of nodes there are, and how many of each."""

from collections.abc import Iterable

from modak_deploy.model.target import Node, NodeKind

_SHARE = 0.05
"""Of the memory: nodes that were bought alike report a little more or less of it."""


def kinds_of(nodes: Iterable[tuple[Node, int, bool]]) -> list[NodeKind]:
    """Return the kinds of nodes, those of which there are most first; none where all are alike.

    Nodes come with their number and whether they can take jobs now; a kind of which none can comes last. One without
    cores is none: with vnode_per_numa_node of OpenPBS the host has them all in its other virtual nodes.
    """
    kinds: list[NodeKind] = []
    working: list[bool] = []
    for node, count, works in nodes:
        if node.cores is None:
            continue
        at = next((number for number, kind in enumerate(kinds) if _alike(kind.node, node)), None)
        if at is None:
            kinds.append(NodeKind(nodes=count, node=node))
            working.append(works)
            continue
        memory = max(node.memory or 0, kinds[at].node.memory or 0) or None
        kinds[at] = NodeKind(nodes=kinds[at].nodes + count, node=kinds[at].node.model_copy(update={"memory": memory}))
        working[at] = working[at] or works
    if len(kinds) < 2:
        return []
    order = sorted(range(len(kinds)), key=lambda at: (not working[at], -kinds[at].nodes, -(kinds[at].node.cores or 0)))
    return [kinds[at] for at in order]


def _alike(node: Node, other: Node) -> bool:
    if (node.cores, node.accelerators) != (other.cores, other.accelerators):
        return False
    if node.memory is None or other.memory is None:
        return node.memory == other.memory
    return abs(node.memory - other.memory) <= _SHARE * max(node.memory, other.memory)
