"""cuDNN measures its convolutions and takes the fastest."""

from typing import Any, Dict, Mapping

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

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        if not module.cuda.is_available():
            raise RuntimeError("no GPU found")
        super().start(module, settings)


LEVER = CudnnBenchmark()
