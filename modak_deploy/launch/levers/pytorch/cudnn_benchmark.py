"""cuDNN measures its convolutions and takes the fastest."""

from typing import Any, Dict

from ...frameworks.pytorch.kinds import Setting


class CudnnBenchmark(Setting):
    name = "pytorch-cudnn-benchmark"
    versions = ">=1.8"
    summary = "cuDNN measures its convolutions and takes the fastest"
    changes = "kernels"
    # Not while the program runs: what was chosen for a convolution without it stays (the cache of plans in PyTorch's
    # Conv_v8.cpp, seen with 2.11). From the start it takes time: 25 s of a ResNet50's training on an H100.
    live = False
    order = 40

    def values(self, torch: Any) -> Dict[str, Any]:
        return {"backends.cudnn.benchmark": True}


LEVER = CudnnBenchmark()
