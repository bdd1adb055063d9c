"""Settings of the process, which follow the variant of the unit, and the one that several frameworks share."""

import os
import threading
import weakref
from typing import Any, Dict, Mapping, Set

from .. import memory
from ..lever import Lever
from ..variants import Variant


class Settings:
    """What is on in the process: it follows the variant of the unit."""

    def __init__(self, framework: Any) -> None:
        self._framework = framework
        self._on: Dict[str, Lever] = {}
        self._been: Set[str] = set()
        """Names of what has been on before."""
        self._lock = threading.RLock()  # another thread of the program may end the trials in the midst of a unit
        _all.add(self)

    def forked(self) -> None:
        """Have a lock that nobody holds: a child lacks the thread that may have set something as another one forked."""
        self._lock = threading.RLock()

    def follow(self, variant: Variant) -> None:
        """Switch on what the variant has, and off what it lacks."""
        with self._lock:
            wanted = {lever.name: lever for lever in variant.levers}
            for name in [name for name in self._on if name not in wanted]:
                self._off(name)
            for name, lever in wanted.items():
                if name in self._on:
                    lever.again()
                    continue
                self._on[name] = lever
                if name in self._been:
                    lever.restore(self._framework)
                else:
                    lever.switch(self._framework, True)
                    self._been.add(name)

    def rest(self) -> None:
        """Switch off, after a unit, what is for units alone."""
        with self._lock:
            for name in [name for name, lever in self._on.items() if lever.within_units]:
                self._off(name)

    def _off(self, name: str) -> None:
        # In this order: where a handler for a signal raises in between, it is done again.
        self._on[name].switch(self._framework, False)
        del self._on[name]


_all: "weakref.WeakSet[Settings]" = weakref.WeakSet()


def _forked() -> None:
    for settings in list(_all):
        settings.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class KeepsMemory(Lever):
    """Freed memory of the processor kept for the next tensors, whatever framework makes them."""

    summary = "glibc's malloc keeps what is freed for the next tensors, in place of giving it back to the system"
    changes = "memory"
    same_results = True
    lasting = True  # the heap has grown, and what holds its end is not moved
    live = True
    at_calls = False
    risk = 1.3
    order = 5
    group = "allocator"

    def switch(self, framework: Any, on: bool) -> None:
        memory.keep(on, self.name)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        memory.keep(True, self.name)
