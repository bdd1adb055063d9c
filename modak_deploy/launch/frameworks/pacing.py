"""Waiting for results of calls that return before their work is done: the time between calls is that of the work then.

A program may hand a device the work of a whole epoch in milliseconds, and wait for it at the epoch's end. By the times
of its calls alone it would look a hundred times as fast as it is.
"""

import threading
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ..handlers import let_through

IN_FLIGHT = 2
"""Calls for each device that may be under way: one runs, and the next is there when it ends."""
KEPT = 4
"""Smallest arrays of a result that are kept: some may be given to the next call for good (donated)."""
SMALL = 1 << 20
"""Bytes up to which an array is kept alive; larger ones live as long as the program wants them."""
Kept = List[Callable[[], Any]]
"""Each returns its array, or None where that is gone."""


class Pace:
    """Holds a program back while more calls are under way than its devices need to be busy.

    Each thread waits for calls of its own alone. Functions of the host that a call calls back (``pure_callback``,
    ``io_callback``) run in threads of JAX's on processors: one that waited for that call would wait for itself.
    """

    def __init__(self, leaves: Callable[[Any], List[Any]], devices: Callable[[], int]) -> None:
        """``leaves`` returns the arrays of a result; ``devices`` their number, asked once there is a result."""
        self._leaves = leaves
        self._devices = devices
        self._most: Optional[int] = None
        self._smallest: Dict[int, Tuple[int, ...]] = {}
        self._threads = threading.local()
        self.over = False

    def __call__(self, result: Any) -> None:
        """Take the result of a call, and wait for that of an earlier one.

        Whatever goes wrong with the work is the program's to see, where it looks at its results.
        """
        if self.over:
            return
        try:
            if self._most is None:
                self._most = IN_FLIGHT * max(1, self._devices())
            flying = self._flying
            flying.append(self._kept(result))
            if len(flying) > self._most:
                _wait(flying.popleft(), flying[-1])
        except Exception as error:  # an array that is not one, or work that failed
            let_through(error)
            self.over = True
            self._flying.clear()

    @property
    def _flying(self) -> Deque[Kept]:
        """Return the calls of this thread that are under way."""
        flying: Optional[Deque[Kept]] = getattr(self._threads, "flying", None)
        if flying is None:
            flying = self._threads.flying = deque()
        return flying

    def _kept(self, result: Any) -> Kept:
        leaves = self._leaves(result)
        indices = self._smallest.get(len(leaves))
        if indices is None:
            arrays = [(leaf.nbytes, index) for index, leaf in enumerate(leaves) if hasattr(leaf, "block_until_ready")]
            indices = tuple(index for _, index in sorted(arrays)[:KEPT])
            if len(self._smallest) < 100:
                self._smallest[len(leaves)] = indices
        return [_reference(leaves[index]) for index in indices]


def _reference(leaf: Any) -> Callable[[], Any]:
    return (lambda: leaf) if leaf.nbytes <= SMALL else weakref.ref(leaf)


def _wait(earlier: Kept, latest: Kept) -> None:
    """Wait for an earlier result; for the latest one where all that is known of it was donated or is gone."""
    for reference in earlier + latest:
        leaf = reference()
        if leaf is not None and not leaf.is_deleted():
            leaf.block_until_ready()
            return
