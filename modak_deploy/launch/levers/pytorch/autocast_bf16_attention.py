"""Automatic mixed precision in bf16, with attention in single precision."""

from typing import Any, Callable, Optional

from ...frameworks.pytorch.functions import Replacement
from ...frameworks.pytorch.kinds import TRAINING, Subject, autocasts
from .autocast_bf16 import AutocastBf16

NODE = "ScaledDotProductFlash"
"""How the gradient of the kernel begins its name."""


class AutocastBf16Attention(AutocastBf16):
    """On processors, the gradient of attention in bf16 takes up to 3 times what it takes in single precision.

    PyTorch 2.13 with AMX: 11.8 ms against 4.0 for 8 x 6 heads and sequences of 128; from 512 on bf16 is as fast.
    """

    name = "pytorch-autocast-bf16-attention"
    summary = "matrix products and convolutions in bf16, by autocast, and attention in single precision, on processors"
    changes = "number format"
    order = 31
    use = TRAINING

    def __init__(self) -> None:
        self._replacement = Replacement("scaled_dot_product_attention", _single)

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        if not any(name.startswith(NODE) for name in subject.operations):
            return "the training has no scaled dot-product attention"
        return super().applies(subject)

    def step(self, torch: Any, on: bool) -> None:
        self._replacement.put(torch, on)


def _single(torch: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """Return an attention that autocast leaves in single precision."""

    def in_single(value: Any) -> Any:
        lower = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
        return value.float() if lower else value

    def attention(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if not autocasts(torch) or any(tensor.device.type != "cpu" for tensor in tensors):
            return own(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            result = own(*map(in_single, args), **{name: in_single(value) for name, value in kwargs.items()})
        return result.to(tensors[0].dtype)  # the query's, as without autocast

    return attention


LEVER = AutocastBf16Attention()
