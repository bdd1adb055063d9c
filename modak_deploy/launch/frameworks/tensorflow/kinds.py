"""What levers of TensorFlow do to the calls of a function, and what is known of a function's graph."""

import contextlib
import importlib
from typing import Any, ContextManager, FrozenSet, List, Mapping, Optional

from ...lever import Lever

READS = frozenset(("VarHandleOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp"))
"""Operations that TensorFlow calls stateful and that change nothing."""


class Graph:
    """What a function's graph says about it, the functions within included."""

    def __init__(self, concrete: Any) -> None:
        definition = concrete.graph.as_graph_def()
        nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
        self.operations: FrozenSet[str] = frozenset(node.op for node in nodes)
        self.size = len(nodes)
        self.variables: List[Any] = list(concrete.variables)
        registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
        calls = ("PartitionedCall", "StatefulPartitionedCall", "StatelessIf", "If", "StatelessWhile", "While")
        stateful = set()
        for name in self.operations - READS - set(calls):
            known = registry.get(name)
            if known is not None and known.is_stateful:
                stateful.add(name)
        self.changing = frozenset(name for name in stateful if "Variable" in name or name.startswith("Resource"))
        """Operations that change variables."""
        self.effects = frozenset(stateful - self.changing)
        """Operations with effects beyond variables, such as output and random numbers of a stateful generator."""
        self.random = any("Random" in name or "Multinomial" in name or "Rng" in name for name in self.operations)


class TensorFlowLever(Lever):
    """A lever that changes how a function is called, or what is called in its place."""

    framework = "tensorflow"
    versions = ">=2.16"
    live = True
    format = ""

    def applies(self, tensorflow: Any, function: Any, graph: Graph) -> Optional[str]:
        """Return why it has no effect on a function; None when it has."""
        return None

    def function(self, tensorflow: Any, function: Any) -> Any:
        """Return what is called in place of a function."""
        return function

    def calling(self) -> ContextManager[Any]:
        """Return what each call is done in."""
        return contextlib.nullcontext()

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is used when a function is called."""
