"""Models of sessions run by OpenVINO itself, in bf16."""

from .by_openvino import ByOpenVino


class ByOpenVinoBf16(ByOpenVino):
    name = "onnxruntime-by-openvino-bf16"
    summary = "the model of a session read and run by OpenVINO, in bf16"
    changes = "number format"
    numerics = "relaxed"
    order = 27
    format = "bf16"
    faster = ""
    precision = "bf16"
    cpu_features_any = ("amx_bf16", "avx512_bf16", "bf16")


LEVER = ByOpenVinoBf16()
