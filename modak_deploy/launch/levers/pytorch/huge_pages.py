"""Weights, and all other memory of the process, moved into huge pages."""

import threading
from typing import Any, Optional

from ... import clock, hugepages
from ...frameworks.pytorch.kinds import Subject, TorchLever

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
    place of 478 (PyTorch 2.13, two cores of an AMD EPYC). Memory that comes later, as for the first results of units
    that keep their memory, or for what is converted, is moved once they have been done: after 2, 4, 8 ... units.
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
        self._spent = 0.0

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        return hugepages.refusal()

    def taking(self) -> float:
        return hugepages.small_memory() * PER_BYTE

    def switch(self, framework: Any, on: bool) -> None:
        if on and self._lock.acquire(False):
            try:
                hugepages.collapse(PATIENT * self.taking())
                self._units, self._due, self._spent, self._since = 0, 2, 0.0, clock.now()
            finally:
                self._lock.release()

    def again(self) -> None:
        self._units += 1
        if self._units < self._due or not self._lock.acquire(False):
            return
        try:
            self._due = 2 * self._units
            start = clock.now()
            seconds = SHARE * (start - self._since) - self._spent
            if seconds > 0:
                hugepages.collapse(seconds)
                self._spent += clock.now() - start
        finally:
            self._lock.release()


LEVER = HugePages()
