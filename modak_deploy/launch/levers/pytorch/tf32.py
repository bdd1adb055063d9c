"""Matrix products and convolutions in single precision with TF32."""

from typing import Any, Dict, Optional

from ...frameworks.pytorch.kinds import Setting, Subject


class Tf32(Setting):
    name = "pytorch-tf32"
    versions = ">=1.12"
    summary = "matrix products and convolutions in single precision computed in TF32, on NVIDIA GPUs from Ampere"
    changes = "number format"
    risk = 1.5
    numerics = "relaxed"
    order = 12
    format = "tf32"

    def values(self, torch: Any) -> Dict[str, Any]:
        return {"backends.cuda.matmul.allow_tf32": True, "backends.cudnn.allow_tf32": True}

    def applies(self, subject: Subject) -> Optional[str]:
        return super().applies(subject) if subject.device == "cuda" else "the module is not on a GPU"


LEVER = Tf32()
