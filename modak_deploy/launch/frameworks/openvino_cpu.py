"""Models of OpenVINO compiled for the processor, whatever framework they come from."""

import importlib
import importlib.metadata
from typing import Any, Optional

from ..versions import satisfies

EARLIEST = "2025.1"
"""The first version whose front ends read what the levers give them."""


def too_old() -> Optional[str]:
    """Return why the installed OpenVINO cannot be used; None when it can."""
    version = importlib.metadata.version("openvino")
    return None if satisfies(version, ">=" + EARLIEST) else "OpenVINO {} is older than {}".format(version, EARLIEST)


def compiled(model: Any, precision: str, threads: int) -> Any:
    """Return what runs a model; ``precision`` is that of its kernels, ``f32`` or ``bf16``."""
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,  # which cores are the job's is the scheduler's decision
    }
    core = importlib.import_module("openvino").Core()
    return core.compile_model(model, "CPU", settings).create_infer_request()
