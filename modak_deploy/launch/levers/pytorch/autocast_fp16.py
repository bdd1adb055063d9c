"""Automatic mixed precision in fp16 around the outermost call of inference on a GPU."""

from typing import Any, ContextManager, Optional, cast

from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class AutocastFp16(TorchLever):
    name = "pytorch-autocast-fp16"
    summary = "matrix products and convolutions of inference in fp16, by autocast, on GPUs"
    changes = "number format"
    numerics = "relaxed"
    order = 35
    group = "precision"
    use = INFERENCE  # training in fp16 needs its loss scaled, which is the program's to do
    format = "fp16"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cuda":
            return "the module is not on a GPU"
        return None if subject.float32 else "the weights are not all in single precision"

    def context(self, torch: Any, device: str) -> Optional[ContextManager[Any]]:
        return cast(ContextManager[Any], torch.autocast(device, dtype=torch.float16))


LEVER = AutocastFp16()
