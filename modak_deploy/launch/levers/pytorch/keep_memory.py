"""Freed memory of the processor kept for PyTorch's next tensors."""

from typing import Optional

from ... import memory
from ...frameworks.pytorch.kinds import Subject, TorchLever
from ...frameworks.settings import KeepsMemory


class KeepMemory(KeepsMemory, TorchLever):
    name = "pytorch-keep-memory"
    ranks = True

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        return memory.refusal()


LEVER = KeepMemory()
