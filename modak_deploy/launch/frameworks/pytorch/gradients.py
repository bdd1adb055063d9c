"""What the gradients of a loss go through."""

from typing import Any, FrozenSet, List, Set

MOST = 20000
"""Operations that are looked at: a network of a thousand layers has fewer."""


def operations(loss: Any) -> FrozenSet[str]:
    """Return the names that autograd gives the operations between a loss and the weights."""
    names: Set[str] = set()
    seen: Set[Any] = set()
    waiting: List[Any] = [loss.grad_fn]
    while waiting and len(seen) < MOST:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        names.add(node.name())
        waiting.extend(before for before, _ in node.next_functions)
    return frozenset(names)
