"""Handlers of the program's for signals: they may run, and raise, in the midst of what is the launcher's own work.

Such an exception is no fault of a lever's. A time limit, a preemption or an end that a scheduler asks for is not to get
lost in it, whatever is being tried.
"""

import contextlib
import signal
from types import FrameType
from typing import Any, Iterator, Optional

NEAR = 60.0
"""Seconds until a timer of the program's ends, within which nothing is tried: what is made ready may take as long."""


def raised(error: Optional[BaseException]) -> Optional[BaseException]:
    """Return what a handler has raised, which may be the cause of an error of a library's; None where none has.

    A handler is given the frame that it interrupts, which no other function has among its variables.
    """
    for _ in range(10):
        if error is None:
            return None
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            if any(_holds(value, trace.tb_frame) for value in trace.tb_next.tb_frame.f_locals.values()):
                return error
            trace = trace.tb_next
        error = error.__cause__
    return None


def let_through(error: BaseException) -> None:
    """Raise what a handler has raised; do nothing about other errors."""
    interruption = raised(error)
    if interruption is not None:
        raise interruption


@contextlib.contextmanager
def suppressed() -> Iterator[None]:
    """Suppress all errors but those of handlers."""
    try:
        yield
    except Exception as error:
        let_through(error)


def timed() -> bool:
    """Tell whether a timer of the program's ends soon: a call must not take longer than it would alone.

    A timer that is repeated is no limit: profilers have such ones.
    """
    if not hasattr(signal, "getitimer"):
        return False
    try:
        seconds, interval = signal.getitimer(signal.ITIMER_REAL)
        return 0 < seconds < NEAR and not interval and signal.getsignal(signal.SIGALRM) != signal.SIG_IGN
    except Exception as error:  # something stands in the place of Python's functions
        let_through(error)
        return True


def _holds(value: Any, frame: FrameType) -> bool:
    return value is frame or (type(value) is tuple and any(item is frame for item in value))
