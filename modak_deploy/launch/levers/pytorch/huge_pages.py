"""Weights, and all other memory of the process, moved into huge pages."""

import threading
from typing import Any, Optional

from ... import clock, hardware, hugepages, memory
from ...frameworks.pytorch.kinds import Subject, TorchLever
from ...handlers import timed

PER_BYTE = 2.5e-3 / (1 << 20)
"""Seconds that it takes to move a byte: 0.3 to 2.3 ms for a MiB on a virtual machine (AMD EPYC, Linux 6.18), where most
of it is for memory that the machine has not used before."""
PATIENT = 1.25
"""Times the expected seconds, after which it is left to the units that follow."""
SHARE = 0.05
"""Part of the time since it is on that moving what is new may take."""


class HugePages(TorchLever):
    """What reads much memory in each unit, such as the weights of large layers, finds it sooner in huge pages.

    BERT with one sentence takes 86 ms in place of 109 then, AlexNet 18.5 in place of 22.1, a step of a small GPT 445 in
    place of 478 (PyTorch 2.13, two cores of an AMD EPYC). What units allocate is kept, where malloc can be told to, and
    is moved with what else comes later once they have been done: after 2, 4, 8 ... units.
    """

    name = "pytorch-huge-pages"
    summary = "the memory that the process has in small pages is moved into huge ones"
    changes = "memory"
    same_results = True
    lasting = True
    irreversible = True
    ranks = True
    risk = 1.3
    order = 44
    group = "page-size"

    def __init__(self) -> None:
        self._lock = threading.Lock()  # only ever tried: a handler for a signal may come here again
        self._units = 0
        self._due = 2
        self._since = 0.0
        self._left = 0.0
        """Seconds of those expected that are left, less what the units that follow have taken of their own."""

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        return hugepages.refusal()

    def useless(self) -> Optional[str]:
        return None if hugepages.movable() else "little of what is in small pages can be moved"

    def taking(self) -> float:
        # What units have freed they will need again, and it is kept then.
        freed = (hardware.peak_memory() or 0) - (hardware.resident_memory() or 0)
        return (hugepages.movable() + max(0, freed)) * PER_BYTE

    def _keep(self, on: bool) -> None:
        if memory.refusal() is None:
            memory.keep(on, self.name)

    def restore(self, framework: Any) -> None:
        self._keep(True)
        self.again()

    def switch(self, framework: Any, on: bool) -> None:
        self._keep(on)
        if on and self._lock.acquire(False):
            try:
                start, self._left = clock.now(), PATIENT * self.taking()
                hugepages.collapse(self._left)
                self._units, self._due, self._since = 0, 2, clock.now()
                self._left -= self._since - start
            finally:
                self._lock.release()

    def again(self) -> None:
        self._units += 1
        if self._units < self._due or timed() or not self._lock.acquire(False):
            return
        try:
            self._due = 2 * self._units
            start = clock.now()
            seconds = self._left + SHARE * (start - self._since)
            if seconds > hugepages.looking():
                hugepages.collapse(seconds)
                self._left -= clock.now() - start
        finally:
            self._lock.release()


LEVER = HugePages()
