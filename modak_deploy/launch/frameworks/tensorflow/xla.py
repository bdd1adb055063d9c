"""Functions of TensorFlow compiled by XLA as they were traced, and what TensorFlow checks in them and XLA does not."""

import contextlib
import functools
from typing import Any, Callable, Dict, List, Optional

from ... import structures
from ..rows import Rows
from ..steps import NotDone
from .kinds import Graph
from .logs import uninformed
from .tables import given_to, numbered

CHECKING = frozenset(
    (
        "Assert", "BandedTriangularSolve", "CheckNumerics", "CheckNumericsV2", "Cholesky", "MatrixInverse",
        "MatrixSolve", "MatrixTriangularSolve", "SelfAdjointEigV2", "Svd", "TridiagonalSolve",
    )
)  # fmt: skip
"""Operations that end the program for some values on processors: XLA leaves them out, or gives values all the same."""
EXTREMES = frozenset(
    ("Max", "Min", "TopK", "TopKV2", "UnsortedSegmentMax", "UnsortedSegmentMin", "SegmentMaxV2", "SegmentMinV2")
)
"""Operations that take the largest or smallest of numbers: where one is no number, TensorFlow gives another."""
OTHERWISE = frozenset(("Polygamma", "Qr", "RGBToHSV", "ResizeBicubic", "ResizeBilinear", "Zeta"))
"""Operations that XLA does in another way for some values that are not finite (TensorFlow 2.21)."""
WITH_LOSSES = frozenset(("ArgMax", "ArgMin", "EluGrad", "InTopK", "InTopKV2", "SoftmaxCrossEntropyWithLogits"))
"""The same of operations that a training has beside its loss: that one is no number either, and is looked at."""


def refusal(graphs: List[Graph], training: bool) -> Optional[str]:
    """Return why functions are not compiled, by what their graphs hold; ``training`` is whether a loss is the check."""
    checking = {name for graph in graphs for name in graph.operations & CHECKING}
    if checking:
        return "it checks values, which XLA does not ({})".format(min(checking))
    if any(graph.operations & EXTREMES for graph in graphs):
        return "it takes the largest or smallest of numbers, as XLA does in another way where one is none"
    otherwise = OTHERWISE if training else OTHERWISE | WITH_LOSSES
    named = {name for graph in graphs for name in graph.operations & otherwise}
    if named:
        return "it has {}, which XLA does in another way for what is not finite".format(min(named))
    if any(graph.divides for graph in graphs):
        return "it divides whole numbers, and XLA does not refuse zero"
    return None


class Limits:
    """The numbers of rows and classes that the arguments of a function may hold.

    TensorFlow on processors refuses others, and XLA takes some row for them, or gives a loss that is no number.
    """

    def __init__(self, tensorflow: Any, concretes: List[Any]) -> None:
        """Take the limits from all traced forms of the function; Unsupported where such numbers are computed."""
        self._tensorflow = tensorflow
        self._rows: Dict[int, Dict[int, Rows]] = {}
        """The limits of arguments by their places, for each number of arguments."""
        for concrete in concretes:
            given = given_to(concrete)
            named = numbered(tensorflow, concrete, given)
            limits = self._rows.setdefault(len(given), {})
            for number, tensor in enumerate(given):
                if tensor.name in named:
                    rows = named[tensor.name]
                    limits[number] = rows.both(limits.get(number, rows))

    def check(self, arguments: Any) -> None:
        """Raise NotDone for arguments that TensorFlow may refuse: it is to say so."""
        if not any(self._rows.values()):
            return
        leaves = [leaf for leaf in self._tensorflow.nest.flatten(arguments) if hasattr(leaf, "dtype")]
        if len(leaves) not in self._rows:
            raise NotDone("which arguments are numbers of rows is not known")
        for number, rows in self._rows[len(leaves)].items():
            try:
                rows.check(self._tensorflow.convert_to_tensor(leaves[number]).numpy())
            except IndexError as error:
                raise NotDone(str(error)) from None


def unchecked(tensorflow: Any, concretes: List[Any]) -> Optional[str]:
    """Return why it is not known which arguments are to be checked; None where it is."""
    try:
        Limits(tensorflow, concretes)
    except structures.Unsupported as error:
        return str(error)
    return None


def jitted(tensorflow: Any, function: Callable[..., Any], **options: Any) -> Any:
    """Return TensorFlow's function for one of Python, compiled by XLA, and none of those that it warns of.

    It warns of functions that are traced often, of all together that have the same code, and these have: one for each
    model (tensorflow/python/eager/polymorphic_function/polymorphic_function.py, 2.16 to 2.21).
    """
    _begin(tensorflow)
    made = tensorflow.function(function, autograph=False, jit_compile=True, **options)
    made._omit_frequent_tracing_warning = True
    made._key_for_call_stats = function
    return made


@functools.lru_cache(maxsize=None)
def _begin(tensorflow: Any) -> None:
    """Have XLA compile something once: it logs with its first functions that it is there, and what it leaves out."""
    with contextlib.suppress(Exception), uninformed(tensorflow):  # what is wrong with XLA shows with a lever
        function = tensorflow.function(lambda number: tensorflow.tanh(number), autograph=False, jit_compile=True)
        function(tensorflow.zeros((8,)))  # one of the launcher's, which is not counted


def compiled(tensorflow: Any, step: Any) -> Callable[[Any], Any]:
    """Return what does a traced function of one argument by XLA.

    Its Python code does not run again: what it counts and draws in Python would go wrong, and what the program has
    changed there since, without an effect until then, would take effect.
    """
    limits = Limits(tensorflow, step._list_all_concrete_functions())
    function = jitted(tensorflow, lambda data: step(data), reduce_retracing=True)
    optional = tensorflow.experimental.Optional

    def call(data: Any) -> Any:
        # Keras hands parts of a batch that are missing on in this way.
        given = tensorflow.nest.map_structure(lambda leaf: None if isinstance(leaf, optional) else leaf, data)
        limits.check(given)
        return function(given)

    return call
