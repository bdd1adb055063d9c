"""The outermost module of inference done by ONNX Runtime, in the module's own precision."""

from typing import Any, Callable, Optional, Tuple

from ...frameworks.pytorch import compiler, onnxruntime, written
from ...frameworks.pytorch.exported import INEFFECTIVE
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class OnnxRuntime(TorchLever):
    name = "pytorch-onnxruntime"
    versions = ">=2.6"  # whose exporter makes models by torch.export
    summary = "the outermost module of inference exported for ONNX Runtime's kernels, in single precision"
    changes = "kernels"
    expensive = True
    keeps = True
    background = True
    own_threads = True
    order = 49
    group = "compilation"
    use = INFERENCE
    copies = True
    conflicts = INEFFECTIVE
    modules = ("onnx", "onnxruntime", "onnxscript")
    faster = "pytorch-onnxruntime-tf32"
    tf32 = False

    def making(self, subject: Subject) -> float:
        # Traced and read, on one core of an AMD EPYC with AVX2: SqueezeNet 0.9 s, AlexNet 1.7, ResNet50 2.6, BERT-base
        # 5.0. Exported, in a slow hour of two: 7.8, 8.2, 10.5, 17 (PyTorch 2.13, ONNX Runtime 1.32); ResNet50 3.4 to
        # 5.4 and BERT-base 6.6 on another one, about as on the node of an H100 (ONNX Runtime 1.31).
        weights = float(sum(weight.numel() * weight.element_size() for weight in subject.parameters))
        if subject.guide and subject.device == "cpu" and subject.operations <= written.DISPATCHED:
            return 0.3 + 0.012 * len(subject.modules) + 6e-9 * weights
        return compiler.loading() + 2.5 + 0.01 * len(subject.modules) + 8e-9 * weights

    def finishing(self, subject: Subject) -> float:
        if subject.device == "cuda":  # its libraries for the GPU are loaded besides; what that takes was not measured
            return self.making(subject) / 2
        # The import and the session: 0.4 s with weights of 58 MB (ONNX Runtime 1.32).
        weights = float(sum(weight.numel() * weight.element_size() for weight in subject.parameters))
        return 0.1 + 6e-9 * weights

    def content_kind(self, torch: Any) -> Optional[Tuple[str, ...]]:
        return onnxruntime.content_kind()

    def applies(self, subject: Subject) -> Optional[str]:
        if not subject.float32:
            return "the weights are not all in single precision"
        return onnxruntime.missing(subject.device)

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        return onnxruntime.InSession(torch, module, self.tf32)


LEVER = OnnxRuntime()
