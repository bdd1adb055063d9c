"""Scaled dot-product attention by the backend that is named."""

from typing import Any, ContextManager, Mapping, Optional, cast

from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class SdpaMath(TorchLever):
    name = "pytorch-sdpa-backend"
    versions = ">=2.3"
    summary = "scaled dot-product attention by cuDNN's kernel in place of the first that fits, on GPUs"
    changes = "kernels"
    order = 45
    use = INFERENCE

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cuda":
            return "the module is not on a GPU"
        backends = subject.torch.nn.attention.SDPBackend
        return None if hasattr(backends, "CUDNN_ATTENTION") else "this version lacks the backend"

    def context(self, torch: Any, device: str) -> Optional[ContextManager[Any]]:
        backends = torch.nn.attention.SDPBackend
        order = [backends.CUDNN_ATTENTION, backends.FLASH_ATTENTION, backends.EFFICIENT_ATTENTION, backends.MATH]
        return cast(ContextManager[Any], torch.nn.attention.sdpa_kernel(order))

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is switched at the call."""


LEVER = SdpaMath()
