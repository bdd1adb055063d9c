"""One thread for the operations of small modules."""

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

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        if subject.torch.get_num_threads() == 1:
            return "it is so already"
        if sum(parameter.numel() for parameter in subject.parameters) > 10_000_000:
            return "the module is large"
        return None

    def switch(self, torch: Any, on: bool) -> None:
        if on:
            self._before = torch.get_num_threads()
        torch.set_num_threads(1 if on else self._before or 1)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is switched at the module's call."""


LEVER = OneThread()
