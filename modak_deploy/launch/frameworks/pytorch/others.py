"""Optimizers beyond the first ones of a program that makes many, as for each task of a meta-learning."""

from typing import Any, Optional

from ... import clock
from ...progress import Progress
from ...session import Session


class Others:
    """Counts their steps together; nothing is tried on them, and nothing is looked at."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._progress: Optional[Progress] = None
        self._last = 0.0

    def after_step(self) -> None:
        """Count a step."""
        now = clock.now()
        if self._progress is None:
            self._progress, self._last = self._session.counters.counter("training: other optimizers", "step"), now
        self._progress.add(now, now - self._last)
        self._last = now
        self._session.counters.tick(now)

    def before_step(self, optimizer: Any) -> None:
        """Nothing: the step is the program's own."""

    def left(self, module: Any) -> None:
        """Nothing: nothing is on."""

    def stop(self, reason: str) -> None:
        """Nothing: nothing is tried."""
