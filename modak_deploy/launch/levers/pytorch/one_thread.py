"""One thread for the operations of small modules."""

import threading
from typing import Any, Mapping, Optional

from ...frameworks.pytorch.kinds import Subject, TorchLever


class OneThread(TorchLever):
    name = "pytorch-one-thread"
    summary = "one thread in PyTorch's pool, for modules too small to divide"
    changes = "threads"
    within_units = True
    order = 50
    group = "threads"

    def __init__(self) -> None:
        self._before = 0
        self._users = 0
        """Objects of the program for which it is on; each thread of the program may call its own."""
        self._lock = threading.RLock()  # the end of an optimizer switches it off, in the midst of anything

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        if subject.torch.get_num_threads() == 1:
            return "it is so already"
        if sum(parameter.numel() for parameter in subject.parameters) > 10_000_000:
            return "the module is large"
        return None

    def switch(self, torch: Any, on: bool) -> None:
        # A thread that asks for the number the first time gets the one that any thread has set last (PyTorch 2.2 to
        # 2.13): as long as it is on for one of them, what another reads is no number of the program's.
        with self._lock:
            if on and not self._users:
                self._before = torch.get_num_threads()
            elif not on and not self._users:
                return
            self._users += 1 if on else -1
            threads = 1 if on else self._before
        torch.set_num_threads(threads)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is switched at the module's call."""


LEVER = OneThread()
