"""One step of fit, as trials do it."""

from typing import Any, Callable, Optional

from ...variants import Variant
from ..steps import Step
from ..tensorflow.calls import keep
from .traced import signature


class BatchStep(Step):
    """A step of fit: its batch is taken once, whoever computes with it.

    What does just what the program does takes its iterator: TensorFlow's function for a batch, called by itself, would
    have random numbers of its own, those of the first step again.
    """

    def __init__(self, function: Any, iterator: Any) -> None:
        self._function = function
        self._iterator = iterator
        self._data: Any = None
        self._signature: Any = None

    def default(self) -> Any:
        return self._function.default(self._iterator)

    def prepare(self, variant: Variant) -> None:
        if not variant.same_results:
            self._data = [next(self._iterator)]
            self._signature = signature(self._function.tensorflow, self._data)

    def _source(self) -> Any:
        return self._iterator if self._data is None else iter(self._data)

    def built(self, variant: Variant) -> bool:
        return (variant.name, self._signature) in self._function.seen

    def keep(self) -> Callable[[], None]:
        function = self._function
        return keep(function.tensorflow, function.variables())

    def do(self, variant: Variant) -> Any:
        function = self._function
        result = function.made(variant)(self._source())
        function.seen.add((variant.name, self._signature))
        return result

    def again(self) -> Any:
        return self._function.default(self._source())

    def loss(self, result: Any) -> Optional[float]:
        loss: Optional[float] = self._function.losses.read(result)
        return loss
