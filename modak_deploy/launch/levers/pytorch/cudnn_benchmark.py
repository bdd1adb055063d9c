"""cuDNN measures its convolutions and takes the fastest."""

from typing import Any, Dict, Optional

from ...frameworks.pytorch.kinds import Setting, Subject


class CudnnBenchmark(Setting):
    name = "pytorch-cudnn-benchmark"
    versions = ">=1.8"
    summary = "cuDNN measures its convolutions and takes the fastest"
    changes = "kernels"
    order = 40

    def values(self, torch: Any) -> Dict[str, Any]:
        return {"backends.cudnn.benchmark": True}

    def applies(self, subject: Subject) -> Optional[str]:
        return super().applies(subject) if subject.device == "cuda" else "the module is not on a GPU"


LEVER = CudnnBenchmark()
