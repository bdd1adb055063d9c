"""The module whose weights an optimizer changes."""

import gc
from typing import Any, Iterator, Optional, Set


def owner(torch: Any, optimizer: Any) -> Optional[Any]:
    """Return the outermost module that holds all weights of an optimizer; None where there is no single one.

    The collector knows all objects. The class is asked by ``type``: a proxy would answer isinstance for another object.
    No method of a module is called: a program has its own, with other arguments, in modules that have no part in this.
    """
    wanted = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    modules = [module for module in gc.get_objects() if issubclass(type(module), torch.nn.Module)]
    inner = {id(child) for module in modules for child in _held(module, "_modules")}
    roots = [module for module in modules if id(module) not in inner and "_parameters" in module.__dict__]
    holders = [module for module in roots if wanted <= _weights(module)]
    return holders[0] if len(holders) == 1 else None


def _weights(root: Any) -> Set[int]:
    weights: Set[int] = set()
    seen: Set[int] = set()
    waiting = [root]
    while waiting:
        module = waiting.pop()
        if id(module) not in seen:
            seen.add(id(module))
            weights.update(map(id, _held(module, "_parameters")))
            waiting.extend(_held(module, "_modules"))
    return weights


def _held(module: Any, table: str) -> Iterator[Any]:
    return (value for value in module.__dict__.get(table, {}).values() if value is not None)
