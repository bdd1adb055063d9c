"""OpenVINO as execution provider."""

from typing import Any, List, Optional

from ...frameworks.onnxruntime.kinds import OrtLever

PROVIDER = "OpenVINOExecutionProvider"


class OpenVino(OrtLever):
    name = "onnxruntime-openvino"
    summary = "OpenVINO's kernels, where this build of ONNX Runtime has them"
    changes = "kernels"
    numerics = "relaxed"  # OpenVINO computes in bf16 where the processor can (seen with 2026.4)
    format = "bf16"
    order = 5
    group = "execution-provider"

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        if PROVIDER not in module.get_available_providers():
            return "this build of ONNX Runtime has no OpenVINO"
        return "it is so already" if PROVIDER in providers else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        return [PROVIDER, *providers]


LEVER = OpenVino()
