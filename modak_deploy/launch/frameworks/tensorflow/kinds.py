"""What levers of TensorFlow do to the calls of a function, and what is known of a function's graph."""

import contextlib
import importlib
from typing import Any, Callable, ContextManager, FrozenSet, List, Mapping, Optional

from ...lever import Lever

READS = frozenset(
    (
        "VarHandleOp",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "LookupTableFindV2",
        "LookupTableSizeV2",
    )
)
"""Operations that TensorFlow calls stateful and that change nothing."""
HARMLESS = frozenset(("Assert",))
"""Operations with effects that may be repeated."""
INPUT = ("IteratorGetNext", "MultiDeviceIteratorGetNext", "QueueDequeue", "ReaderRead", "Unstage")
"""Beginnings of the names of operations that take input away: a step done again would be done with the next."""
RANDOM = ("Random", "Multinomial", "Rng", "TruncatedNormal", "CandidateSampler", "SampleDistorted")
"""Parts of the names of operations that draw random numbers."""
DIVISIONS = ("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod")
DIVISORS = ("Const", "Maximum", "Rank", "Size")
"""Operations whose results whole numbers are divided by in TensorFlow's own gradients, by no zero."""
DISTRIBUTED = ("Collective", "Nccl", "Horovod")
"""Beginnings of the names of operations that wait for other processes or devices."""


class Graph:
    """What a function's graph says about it, the functions within included."""

    def __init__(self, concrete: Any) -> None:
        self.concrete = concrete
        definition = concrete.graph.as_graph_def()
        bodies = [definition.node, *(function.node_def for function in definition.library.function)]
        nodes = [node for body in bodies for node in body]
        self.operations: FrozenSet[str] = frozenset(node.op for node in nodes)
        self.size = len(nodes)
        self.variables: List[Any] = list(concrete.variables)
        registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
        calls = ("PartitionedCall", "StatefulPartitionedCall", "StatelessIf", "If", "StatelessWhile", "While")
        stateful = set()
        for name in self.operations - READS - set(calls):
            listed = registry.get(name)
            if listed is not None and listed.is_stateful:
                stateful.add(name)
        self.changing = frozenset(name for name in stateful if "Variable" in name or name.startswith("Resource"))
        """Operations that change variables."""
        self.effects = frozenset(stateful - self.changing)
        """Operations with effects beyond variables, such as output and random numbers of a stateful generator."""
        self.random = any(part in name for name in self.operations for part in RANDOM)
        self.divides = any(map(_divides, bodies))
        """Whether it divides whole numbers by what may be zero."""
        self.input = sorted(name for name in self.operations if name.startswith(INPUT))
        """Operations that take input away."""
        self.distributed = any(name.startswith(DISTRIBUTED) for name in self.operations) or any(
            getattr(variable, "_distribute_strategy", None) is not None for variable in self.variables
        )
        self.foreign = not self.distributed and self._foreign(concrete)
        """Whether it holds resources other than ``variables``: TensorFlow does not list variables that are only written
        to (``read_value=False``, slots of older optimizers), tables and iterators."""

    def _foreign(self, concrete: Any) -> bool:
        listed = {id(variable.handle) for variable in self.variables}
        held = (tensor for tensor in concrete.captured_inputs if tensor.dtype.name == "resource")
        return any(id(tensor) not in listed for tensor in held)


def _divides(nodes: Any) -> bool:
    divisors = {node.name for node in nodes if node.op in DIVISORS}
    types = importlib.import_module("tensorflow").dtypes
    return any(
        types.as_dtype(node.attr["T"].type).is_integer and node.input[1].partition(":")[0] not in divisors
        for node in nodes
        if node.op in DIVISIONS
    )


class TensorFlowLever(Lever):
    """A lever that changes how a function is called, or what is called in its place."""

    framework = "tensorflow"
    versions = ">=2.16"
    live = True
    at_calls = True
    format = ""

    def applies(self, tensorflow: Any, function: Any, graph: Graph) -> Optional[str]:
        """Return why it has no effect on a function; None when it has."""
        return None

    def function(self, tensorflow: Any, function: Any, graph: Graph) -> Any:
        """Return what is called in place of a function."""
        return function

    def check(self, tensorflow: Any, graph: Graph) -> Optional[Callable[[Any, Any], None]]:
        """Return what looks at a call's arguments before it, and raises NotDone for those that are not its own."""
        return None

    def calling(self) -> ContextManager[Any]:
        """Return what each call is done in."""
        return contextlib.nullcontext()

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is used when a function is called."""
