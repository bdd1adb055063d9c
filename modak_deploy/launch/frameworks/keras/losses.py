"""The loss of a batch, read from what Keras keeps of all since the epoch began."""

from typing import Any, Optional, Tuple


class Losses:
    """The loss of a batch: Keras's own is the mean since the epoch began."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before: Tuple[float, float] = (0.0, 0.0)

    def read(self, logs: Any) -> Optional[float]:
        """Return the loss of the batches since the last reading; None where the step gives none."""
        value = logs.get("loss") if isinstance(logs, dict) else None
        tracker = getattr(self._model, "_loss_tracker", None)
        if value is None:
            return None
        mean = float(value)
        if tracker is None or not hasattr(tracker, "total"):
            return mean
        total, count = float(tracker.total.numpy()), float(tracker.count.numpy())
        (last_total, last_count), self._before = self._before, (total, count)
        if count > last_count > 0:
            return (total - last_total) / (count - last_count)
        return mean
