"""What the gradients of a loss go through."""

from typing import Any, FrozenSet, Iterable, List, Set

MOST = 20000
"""Operations that are looked at: a network of a thousand layers has fewer."""
OWN = "own: "
"""How the names of operations begin that are functions in Python, other than PyTorch's own."""
DECORATED = {"forward": "decorate_fwd", "backward": "decorate_bwd"}
"""Functions that know autocast have these two around theirs (torch.amp.custom_fwd and custom_bwd, 2.2 to 2.13)."""


def operations(outputs: Iterable[Any]) -> FrozenSet[str]:
    """Return the names that autograd gives the operations between losses and the weights."""
    names: Set[str] = set()
    seen: Set[Any] = set()
    waiting: List[Any] = [getattr(output, "grad_fn", None) for output in outputs]
    while waiting and len(seen) < MOST:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = getattr(type(node), "_forward_cls", None)
        names.add(node.name() if function is None or not is_bound(function) else OWN + function.__name__)
        waiting.extend(before for before, _ in node.next_functions)
    return frozenset(names)


def is_bound(function: Any) -> bool:
    """Tell whether a class derived from torch.autograd.Function may need gradients of the same number format as what
    its ``forward`` was given: PyTorch's own do not, nor those that see to it themselves."""
    if str(function.__module__).partition(".")[0] == "torch":
        return False
    codes = {name: getattr(getattr(function, name, None), "__code__", None) for name in DECORATED}
    return any(getattr(code, "co_name", None) != DECORATED[name] for name, code in codes.items())
