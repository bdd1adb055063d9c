"""The outermost module of inference done by ONNX Runtime on a GPU, with products in TF32."""

from typing import Optional

from ...frameworks.pytorch.kinds import Subject
from .onnxruntime import OnnxRuntime


class OnnxRuntimeTf32(OnnxRuntime):
    name = "pytorch-onnxruntime-tf32"
    summary = "the outermost module of inference exported for ONNX Runtime's kernels, in TF32 on NVIDIA's GPUs"
    changes = "number format"
    numerics = "relaxed"
    format = "tf32"
    order = 49
    faster = ""
    tf32 = True

    def applies(self, subject: Subject) -> Optional[str]:
        return super().applies(subject) if subject.device == "cuda" else "the module is not on a GPU"


LEVER = OnnxRuntimeTf32()
