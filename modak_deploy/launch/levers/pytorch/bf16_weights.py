"""Inference with a copy of the weights in bf16."""

from typing import Any, Optional

from ...frameworks.pytorch import bf16
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class Bf16Weights(TorchLever):
    name = "pytorch-bf16-weights"
    summary = "inference with a copy of the module in bf16; results are given back in single precision"
    changes = "number format"
    risk = 2.0  # never less than 0.9 times as fast where the processor has bf16
    numerics = "relaxed"
    order = 3  # on processors that have it, what gains most: its gain pays for the other trials
    group = "precision"
    use = INFERENCE
    format = "bf16"
    copies = True

    def applies(self, subject: Subject) -> Optional[str]:
        if not subject.float32:
            return "the weights are not all in single precision"
        if subject.device == "cuda" and not subject.torch.cuda.is_bf16_supported():
            return "the GPU has no bf16 arithmetic"
        return bf16.refusal(subject.torch, subject.device)

    def weight(self, torch: Any, tensor: Any) -> Any:
        return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor

    def argument(self, torch: Any, tensor: Any) -> Any:
        return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor


LEVER = Bf16Weights()
