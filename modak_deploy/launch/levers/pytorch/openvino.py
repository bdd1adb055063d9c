"""The outermost module of inference done by OpenVINO, in single precision."""

from typing import Any, Callable, Optional, Tuple

from ...frameworks import openvino_cpu
from ...frameworks.pytorch import compiler, openvino
from ...frameworks.pytorch.exported import INEFFECTIVE
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class OpenVino(TorchLever):
    name = "pytorch-openvino"
    versions = ">=2.5"
    summary = "the outermost module of inference converted for OpenVINO's kernels, in single precision"
    changes = "kernels"
    expensive = True
    keeps = True
    background = True
    unforked = ("openvino",)
    order = 48
    group = "compilation"
    use = INFERENCE
    copies = True
    conflicts = INEFFECTIVE
    modules = ("openvino",)
    faster = "pytorch-openvino-bf16"
    precision = "f32"

    def making(self, subject: Subject) -> float:
        # Traced or exported, compiled, and written for later runs: SqueezeNet 1.0 or 4.6 s, AlexNet 0.9 or 4.5,
        # ResNet50 1.8 or 8.9, BERT 2.8 or 8.3 (PyTorch 2.13, OpenVINO 2026.4, an AMD EPYC with AVX2).
        weights = float(sum(weight.numel() * weight.element_size() for weight in subject.parameters))
        if subject.guide:
            return 0.4 + 0.008 * len(subject.modules) + 5e-9 * weights
        return compiler.loading() + 1.0 + 0.02 * len(subject.modules) + 6e-9 * weights

    def finishing(self, subject: Subject) -> float:
        # The import takes 0.16 s, and reading the compiled model 0.44 s with weights of 58 MB (OpenVINO 2026.4).
        weights = float(sum(weight.numel() * weight.element_size() for weight in subject.parameters))
        return 0.25 + 0.003 * len(subject.modules) + 6e-9 * weights

    def content_kind(self, torch: Any) -> Optional[Tuple[str, ...]]:
        return openvino.content_kind(torch, self.precision)

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.device != "cpu":
            return "the module is not on the processor"
        if not subject.float32:
            return "the weights are not all in single precision"
        return openvino_cpu.refusal()

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        return openvino.Converted(torch, module, self.precision)


LEVER = OpenVino()
