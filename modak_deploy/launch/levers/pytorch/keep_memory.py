"""Freed memory of the processor kept for the next tensors."""

from typing import Any, Mapping, Optional

from ... import memory
from ...frameworks.pytorch.kinds import Subject, TorchLever


class KeepMemory(TorchLever):
    name = "pytorch-keep-memory"
    summary = "glibc's malloc keeps what is freed for the next tensors, in place of giving it back to the system"
    changes = "memory"
    same_results = True
    lasting = True  # the heap has grown, and what holds its end is not moved
    at_calls = False
    risk = 1.3
    ranks = True
    order = 5
    group = "allocator"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        return memory.refusal()

    def switch(self, torch: Any, on: bool) -> None:
        memory.keep(on)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        memory.keep(True)


LEVER = KeepMemory()
