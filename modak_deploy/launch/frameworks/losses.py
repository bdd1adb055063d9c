"""The losses of a training, by which variants are judged that leave no result to compare."""

import math
import statistics
from collections import deque
from typing import Deque, Dict

LOSSES = 20
"""Losses that the trajectory is judged by."""
AGAIN = 5
"""Steps of the default after a rise, from which further losses are judged: it may have been the training's own."""
MARGIN = 4.0
"""Standard deviations by which a loss may rise before it counts as wrong."""


class Losses:
    """The latest losses with each variant."""

    def __init__(self) -> None:
        self._losses: Dict[str, Deque[float]] = {}

    def add(self, variant: str, loss: float) -> None:
        """Add the loss of a step; one that is not finite tells no scatter."""
        if math.isfinite(loss):
            self._losses.setdefault(variant, deque(maxlen=LOSSES)).append(loss)

    def clear(self) -> None:
        """Forget all: what comes is judged by what comes."""
        self._losses.clear()

    def rise(self, variant: str, base: str) -> bool:
        """Tell whether the losses with a variant rise above those with ``base`` by more than their scatter."""
        now, before = self._losses.get(variant, ()), self._losses.get(base, ())
        if len(now) < 3 or len(before) < 2:
            return False
        scatter = statistics.pstdev(before) + 0.05 * abs(statistics.mean(before))
        return statistics.median(now) > statistics.median(before) + MARGIN * scatter
