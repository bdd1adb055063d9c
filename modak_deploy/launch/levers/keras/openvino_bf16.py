"""Keras's batches of predict done by OpenVINO, in bf16."""

from typing import Optional

from ...frameworks.keras.kinds import Subject
from ...frameworks.tensorflow import bf16
from .openvino import OpenVino


class OpenVinoBf16(OpenVino):
    name = "keras-openvino-bf16"
    summary = "batches of predict converted for OpenVINO's kernels, in bf16"
    numerics = "relaxed"
    order = 40
    format = "bf16"
    faster = ""
    precision = "bf16"

    def applies(self, subject: Subject) -> Optional[str]:
        return super().applies(subject) or bf16.refusal(subject.tensorflow)


LEVER = OpenVinoBf16()
