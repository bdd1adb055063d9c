"""Freed memory of the processor kept for the next tensors of Keras's batches."""

from typing import Optional

from ... import memory
from ...frameworks.keras.kinds import KerasLever, Subject
from ...frameworks.settings import KeepsMemory


class KeepMemory(KeepsMemory, KerasLever):
    name = "keras-keep-memory"

    def applies(self, subject: Subject) -> Optional[str]:
        return memory.refusal()


LEVER = KeepMemory()
