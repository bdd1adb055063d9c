"""Masks of dropout from 16 random bits for each value."""

from typing import Any, Callable, Optional

from ...frameworks.pytorch.functions import Replacement, is_ordinary
from ...frameworks.pytorch.kinds import TRAINING, Subject, TorchLever

BITS = 16
"""A rate is a multiple of 1/65536: 0.1 becomes 0.100006, and what stays is scaled by just that."""
FEWEST = 4096
"""Values below which nothing is gained."""


class DropoutMasks(TorchLever):
    """PyTorch draws 64 random bits for each value, one after the other: 13 ms for a million values (2.13, one Xeon).

    Its generator is used as before, with other numbers of the same distribution. In a compiled module, the compiler's
    own dropout stays.
    """

    name = "pytorch-dropout-masks"
    summary = "masks of dropout from 16 random bits for each value in place of 64, on processors"
    changes = "kernels"
    numerics = "relaxed"  # other random numbers
    risk = 1.5
    ranks = True
    order = 32
    group = "dropout"
    use = TRAINING

    def __init__(self) -> None:
        self._replacement = Replacement("dropout", _from_integers)

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        layers = [module for module in subject.modules if isinstance(module, subject.torch.nn.Dropout)]
        return None if any(0 < layer.p < 1 for layer in layers) else "the module has no dropout"

    def step(self, torch: Any, on: bool) -> None:
        self._replacement.put(torch, on)


def _from_integers(torch: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a dropout that takes its masks from random integers of 64 bits."""
    plain = (torch.Tensor, torch.nn.Parameter)

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if torch.compiler.is_compiling():
            return own(input, p, training, inplace)
        if type(input) not in plain and torch.overrides.has_torch_function((input,)):
            # PyTorch's own would tell the class the name of this one.
            values = {"p": p, "training": training, "inplace": inplace}
            return torch.overrides.handle_torch_function(own, (input,), input, **values)
        cut = round(p * (1 << BITS)) if training and type(p) in (int, float) and 0 <= p <= 1 else 0
        large = is_ordinary(torch, input) and input.is_floating_point() and input.numel() >= FEWEST
        if not (0 < cut < 1 << BITS and large):
            return own(input, p, training, inplace)
        mask = _mask(torch, input, cut)
        return input.mul_(mask) if inplace else input * mask

    return dropout


def _mask(torch: Any, like: Any, cut: int) -> Any:
    """Return a tensor of ``like``'s form: 0 with probability ``cut`` / 65536, else what keeps the mean as it was."""
    count, lanes = like.numel(), 64 // BITS
    drawn = torch.empty(-(-count // lanes), dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    kept = drawn.view(torch.int16)[:count] >= cut - (1 << (BITS - 1))
    scaled = kept.to(like.dtype).mul_((1 << BITS) / ((1 << BITS) - cut))
    return scaled.as_strided(like.shape, torch.empty_like(like, device="meta").stride())


LEVER = DropoutMasks()
