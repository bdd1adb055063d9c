"""The outermost module of inference done by OpenVINO, in bf16 where that is faster."""

from typing import Optional

from ...frameworks.pytorch import bf16
from ...frameworks.pytorch.kinds import Subject
from .openvino import OpenVino


class OpenVinoBf16(OpenVino):
    name = "pytorch-openvino-bf16"
    summary = "the outermost module of inference converted for OpenVINO's kernels, in bf16"
    numerics = "relaxed"
    order = 47
    format = "bf16"
    faster = ""
    precision = "bf16"

    def applies(self, subject: Subject) -> Optional[str]:
        return super().applies(subject) or bf16.refusal(subject.torch, subject.device)


LEVER = OpenVinoBf16()
