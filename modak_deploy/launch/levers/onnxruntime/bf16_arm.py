"""Matrix products of single precision in bf16, on Arm."""

from typing import Any, List

from ...frameworks.onnxruntime.kinds import OrtLever


class Bf16Arm(OrtLever):
    name = "onnxruntime-bf16-arm"
    versions = ">=1.17"
    summary = "matrix products of single precision computed in bf16, on Arm processors with bf16"
    changes = "number format"
    numerics = "relaxed"
    format = "bf16"
    order = 8
    cpu_features_any = ("bf16",)

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.add_session_config_entry("mlas.enable_gemm_fastmath_arm64_bfloat16", "1")
        return providers


LEVER = Bf16Arm()
