"""Automatic mixed precision in bf16 around the outermost call."""

from typing import Any, ContextManager, Optional, cast

from ...frameworks.pytorch import bf16, formats
from ...frameworks.pytorch.kinds import Subject, TorchLever


class AutocastBf16(TorchLever):
    name = "pytorch-autocast-bf16"
    summary = "matrix products and convolutions in bf16, by autocast around the outermost module"
    changes = "number format"
    risk = 3.0  # AlexNet, one image at a time: 0.33 times as fast
    ranks = True
    numerics = "relaxed"
    order = 14
    group = "precision"
    format = "bf16"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.module is None:
            return "no single module holds the weights"
        if not subject.float32:
            return "the weights are not all in single precision"
        if subject.device == "cuda" and not subject.torch.cuda.is_bf16_supported():
            return "the GPU has no bf16 arithmetic"
        if subject.optimizer is not None:
            reason = formats.refusal(subject.torch, subject.module, subject.operations)
            if reason is not None:
                return reason
        return bf16.refusal(subject.torch, subject.device)

    def context(self, torch: Any, device: str) -> Optional[ContextManager[Any]]:
        return cast(ContextManager[Any], torch.autocast(device, dtype=torch.bfloat16))


LEVER = AutocastBf16()
