"""Weights and images of convolutions stored channels last."""

from typing import Any, Optional

from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class ChannelsLast(TorchLever):
    """Not for training, though images alone in this order would make its steps faster.

    The order passes on to what is computed from them, and programs get hold of that: what a module keeps or a hook is
    given, the gradients of ``torch.autograd.grad``, those in the ``backward`` of a function of the program's own. Each
    fails at ``view(-1)``, outside the module's call, where nothing can be repeated.
    """

    name = "pytorch-channels-last"
    summary = "weights and images of convolutions in the memory order channels last"
    changes = "memory layout"
    risk = 1.5
    order = 13
    copies = True
    use = INFERENCE

    def applies(self, subject: Subject) -> Optional[str]:
        weights = [weight for weight in subject.parameters if weight.dim() == 4]
        if not weights:
            return "no weight has four dimensions"
        if all(weight.is_contiguous(memory_format=subject.torch.channels_last) for weight in weights):
            return "it is so already"
        return None

    def weight(self, torch: Any, tensor: Any) -> Any:
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    def argument(self, torch: Any, tensor: Any) -> Any:
        if tensor.dim() == 4 and tensor.is_floating_point():
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor


LEVER = ChannelsLast()
