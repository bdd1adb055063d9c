"""Live trials of the program's own tf.functions.

A function that changes variables does each step once, with some variant, and its loss is the check. The results of one
that changes nothing are compared.
"""

import collections.abc
import contextlib
import functools
import importlib
import threading
import weakref
from typing import Any, Callable, Collection, Dict, List, Optional, Set, Tuple, cast

from ... import clock, hardware, structures
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...trials import OwnCall, TriedCalls, shielded
from ...variants import DEFAULT, Variant
from .. import arrays
from ..settings import Settings
from ..steps import Step, Steps
from .kinds import Graph, TensorFlowLever

SECONDS = 1.0
PER_NODE = 0.004
"""What XLA takes to compile a graph, and a node more of it: 3 s were seen for 250 nodes with convolutions."""
COPY = 1e-9
"""Seconds for each byte of the variables that a trial of a step copies before it."""


class Function(TriedCalls):
    """Trials of one function."""

    def __init__(self, session: Session, tensorflow: Any, function: Any, call: Callable[..., Any]) -> None:
        self._session = session
        self._tensorflow = tensorflow
        self.default = functools.partial(call, function)
        self._call = call
        self._function = function
        self.name = str(getattr(function.python_function, "__name__", "function"))
        self.graph: Optional[Graph] = None
        self._made: Dict[str, Callable[..., Any]] = {}
        self._steps: Optional[Steps] = None
        self._search: Optional[Search] = None
        self._signature: Any = None
        self._seen: Set[str] = set()
        self._settings = Settings(tensorflow)
        self._busy = threading.Lock()
        self._over: Optional[str] = None

    def __reduce__(self) -> Any:
        """Leave the trials out of copies of the function, in this process and in others."""
        return type(None), ()

    def of(self, function: Any) -> bool:
        """Tell whether these are a function's trials, not those of what it was copied from."""
        return self._function is function

    def stop(self, reason: str) -> None:
        """Call the program's own function from now on."""
        if self._over is None:
            self._over = reason
            self._session.record.add("no_trials", of=self.name, reason=reason)
            if self._steps is not None:
                self._steps.end(reason)
            if self._search is not None:
                self._search.stop(reason)
            self._made.clear()
            self.follow(DEFAULT)

    def pace(self) -> Optional[float]:
        """Return the seconds of a call from now on, where trials know."""
        if self._over is not None:
            return None
        trials = self._steps or self._search
        return None if trials is None else trials.pace

    def follow(self, variant: Variant) -> None:
        self._settings.follow(variant)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._over is not None or (self._steps is not None and self._steps.over):
            return self.default(*args, **kwargs)
        if not self._busy.acquire(blocking=False):
            self.stop("the function is called by several threads at once")
            return self.default(*args, **kwargs)
        try:
            return shielded(self._tried, self.default, args, kwargs, self._fail)
        finally:
            self._busy.release()

    def _fail(self, reason: str) -> None:
        self._session.record.fallback("the observation of tensorflow", reason)
        self.stop(reason)

    def _tried(self, default: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if not _no_tape():
            self.stop("its calls are recorded for gradients")
            return default(*args, **kwargs)
        if self.graph is None:
            result = default(*args, **kwargs)  # the first call traces, and may make variables
            self._begin(args, kwargs, result)
            return result
        if self._signature != _signature(self._tensorflow, args, kwargs) or self._runs_eagerly():
            return default(*args, **kwargs)
        if self._steps is not None:
            result = self._steps.step(_Step(self, default, args, kwargs))
            tidy(self._made, self._steps.wanted)
            return result
        search = cast(Search, self._search)
        return self.do(search, search.next(), lambda call: default(*call[0], **call[1]), (args, kwargs))

    def _runs_eagerly(self) -> bool:
        return bool(self._tensorflow.config.functions_run_eagerly())

    def _begin(self, args: Any, kwargs: Any, result: Any) -> None:
        reason = self._session.hands_off or refusal(self._tensorflow)
        if reason is not None:  # before anything is traced
            self.stop(reason)
            return
        graph = self.graph = Graph(self._function.get_concrete_function(*args, **kwargs))
        self._signature = _signature(self._tensorflow, args, kwargs)
        reason = _once(graph)
        if graph.changing and scalar(self._tensorflow, result) is None:
            reason = reason or "it changes variables, and no result is a loss to compare"
        if reason is not None:
            self.stop(reason)
            return
        levers, chosen = self._candidates(graph)
        if not levers and not chosen.levers:
            self.stop("no lever has an effect on it")
            return
        checks = not graph.changing
        trials, seconds = self._session.config.trials, SECONDS + PER_NODE * graph.size
        search = search_for(self.name, levers, trials, self._session.record, checks=checks, seconds=seconds)
        self._session.follow(search)
        if chosen.levers:
            search.fix(chosen)
        if checks:
            self._search = search
        else:
            search.takes(COPY * bytes_of(graph.variables))
            self._steps = Steps(self._session, self.name, search, search.base, self.follow)

    def _candidates(self, graph: Graph) -> Tuple[List[Any], Variant]:
        levers, chosen = self._session.chosen_or_offered(
            "tensorflow",
            str(self._tensorflow.__version__),
            lambda lever: isinstance(lever, TensorFlowLever),
            lambda lever: lever.applies(self._tensorflow, self._function, graph),
        )
        return levers, Variant(tuple(chosen))

    # what calls in a variant's way

    def ready(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        made = self.made(variant)
        return lambda call: made(*call[0], **call[1])

    def made(self, variant: Variant) -> Callable[..., Any]:
        """Return what is called for a variant."""
        if variant.name not in self._made:
            function, levers, graph = self._function, levers_of(variant.levers), cast(Graph, self.graph)
            checks = [check for check in (lever.check(self._tensorflow, graph) for lever in levers) if check]
            for lever in levers:
                function = lever.function(self._tensorflow, function, graph)

            def call(*args: Any, **kwargs: Any) -> Any:
                for check in checks:
                    check(args, kwargs)
                with contextlib.ExitStack() as stack:
                    for lever in levers:
                        stack.enter_context(lever.calling())
                    return self._call(function, *args, **kwargs)

            self._made[variant.name] = call
        return self._made[variant.name]

    def compare(self, variant: Variant, default: Any, result: Any) -> Tuple[Optional[float], Optional[str]]:
        limit = arrays.limit(variant.levers, self._session.config.trials.tolerance)
        first, second = (as_arrays(self._tensorflow, item) for item in (default, result))
        return arrays.difference(importlib.import_module("numpy"), first, second, limit)

    def now(self, search: Search) -> float:
        return clock.now()


class _Step(Step):
    """A call of a function that changes variables."""

    def __init__(self, function: Function, default: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._function = function
        self._default = default
        self._args = args
        self._kwargs = kwargs

    def default(self) -> Any:
        return self._default(*self._args, **self._kwargs)

    def built(self, variant: Variant) -> bool:
        return variant.name in self._function._seen

    def keep(self) -> Callable[[], None]:
        graph = self._function.graph
        tensorflow = self._function._tensorflow
        given = [leaf for leaf in tensorflow.nest.flatten((self._args, self._kwargs)) if hasattr(leaf, "assign")]
        return keep(tensorflow, [*(graph.variables if graph is not None else []), *given])

    def do(self, variant: Variant) -> Any:
        result = self._function.made(variant)(*self._args, **self._kwargs)
        self._function._seen.add(variant.name)
        return result

    def owns(self) -> None:
        if isinstance(self._default, OwnCall):
            self._default.failed = True

    def loss(self, result: Any) -> Optional[float]:
        return scalar(self._function._tensorflow, result)


def levers_of(levers: Any) -> List[TensorFlowLever]:
    """Return levers as what they are."""
    return [cast(TensorFlowLever, lever) for lever in levers]


def refusal(tensorflow: Any) -> Optional[str]:
    """Return why nothing is tried in this process."""
    if tensorflow.distribute.has_strategy():
        return "the program distributes its work"
    if tensorflow.config.functions_run_eagerly():
        return "functions run eagerly"
    if tensorflow.config.list_physical_devices("GPU"):
        return "trials of TensorFlow are for processors"
    return None


def bytes_of(variables: List[Any]) -> int:
    """Return the size of variables."""
    return sum(int(variable.shape.num_elements() or 0) * variable.dtype.size for variable in variables)


def tidy(made: Dict[str, Any], wanted: Collection[str]) -> None:
    """Drop what was made for variants that lost."""
    for name in [name for name in made if name not in wanted]:
        del made[name]


def no_room(variables: List[Any]) -> Optional[str]:
    """Return why there is no memory for a copy of variables; None where there is."""
    size = bytes_of(variables)
    free = hardware.free_memory()
    if free is not None and 2 * size > free:
        return "a copy takes {} MiB and {} MiB are free".format(size >> 20, free >> 20)
    return None


def keep(tensorflow: Any, variables: List[Any]) -> Callable[[], None]:
    """Copy variables, and return what sets them back."""
    reason = no_room(variables)
    if reason is not None:
        raise MemoryError(reason)
    # Not tf.identity, which may share the buffer that a later assignment writes to.
    copies = [(variable, variable.numpy().copy()) for variable in variables]

    def undo() -> None:
        for variable, value in copies:
            variable.assign(value)

    return undo


def scalar(tensorflow: Any, result: Any) -> Optional[float]:
    """Return the first single number of floating point in a result: its loss."""
    for leaf in tensorflow.nest.flatten(result):
        if tensorflow.is_tensor(leaf) and leaf.dtype.is_floating and leaf.shape.num_elements() == 1:
            return float(leaf.numpy().reshape(()))
    return None


def as_arrays(tensorflow: Any, result: Any) -> List[Any]:
    """Return a result's tensors as arrays."""
    return [leaf.numpy() for leaf in tensorflow.nest.flatten(result) if tensorflow.is_tensor(leaf)]


def _no_tape() -> bool:
    return bool(importlib.import_module("tensorflow.python.pywrap_tfe").TFE_Py_TapeSetIsEmpty())


def _once(graph: Graph) -> Optional[str]:
    """Return why a call can be done once only, not again: not even after a variant that failed."""
    if graph.distributed:
        return "the program distributes its work"
    if graph.changing and graph.input:
        return "it takes its input away, and a step cannot be done again: {}".format(graph.input[0])
    if graph.changing and graph.foreign:
        return "it may change what cannot be set back"
    if graph.effects and not graph.changing:
        return "it has effects that must not be repeated: {}".format(sorted(graph.effects)[0])
    return None


def _signature(tensorflow: Any, args: Any, kwargs: Any) -> Tuple[Any, ...]:
    """Return what TensorFlow chooses the graph by: the form of tensors, and the value of all else."""
    leaves = [_form(leaf) for leaf in tensorflow.nest.flatten((args, kwargs))]
    return (_structure((args, dict(sorted(kwargs.items())))), tuple(leaves))


def _structure(value: Any) -> Any:
    """Return the containers that a value consists of: two kinds of them with the same leaves may be two graphs."""
    kind = type(value)
    if isinstance(value, collections.abc.Mapping):
        return (kind, tuple((key, _structure(item)) for key, item in value.items()))
    if isinstance(value, (tuple, list)):
        return (kind, tuple(map(_structure, value)))
    return kind if hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__tf_flatten__") else None


class _Object:
    """An object by which TensorFlow chooses a graph: another one may be where it was in memory."""

    __slots__ = ("_reference",)

    def __init__(self, value: Any) -> None:
        try:
            self._reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:  # of a class that permits no references
            self._reference = lambda: value

    def __eq__(self, other: object) -> bool:
        own = self._reference()
        return own is not None and isinstance(other, _Object) and own is other._reference()

    def __hash__(self) -> int:
        return hash(type(self))


def _form(leaf: Any) -> Any:
    if isinstance(leaf, (str, bytes)):  # NumPy's have a shape and a type as well, and are no tensors
        return (type(leaf), leaf)
    if _is_tensor(leaf):
        variable = _Object(leaf) if hasattr(leaf, "assign") else None  # which variable is changed matters
        return (getattr(leaf, "shape", None), leaf.dtype, variable)
    if isinstance(leaf, structures.PLAIN):
        return (type(leaf), leaf)
    return (type(leaf), _Object(leaf))


def _is_tensor(leaf: Any) -> bool:
    """Tell whether TensorFlow takes a leaf for a tensor, of which the shape and the type count, and not the values.

    Others may have both: spaces of observations, classes of NumPy (tensorflow/core/function/trace_type, 2.16 to 2.21).
    """
    if isinstance(leaf, type) or getattr(leaf, "dtype", None) is None or not hasattr(leaf, "shape"):
        return False
    return hasattr(leaf, "__array__") or hasattr(leaf, "__tf_tracing_type__")
