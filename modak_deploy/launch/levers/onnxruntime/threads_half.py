"""Threads for half of the cores, where two threads share a core or memory is what limits."""

from typing import Any, List, Optional

from ... import hardware
from ...frameworks.onnxruntime.kinds import OrtLever


class ThreadsHalf(OrtLever):
    name = "onnxruntime-threads-half"
    summary = "threads within an operation for half of the cores that the process may use"
    changes = "threads"
    risk = 2.5  # half of the cores take twice as long where the work divides well
    order = 25
    group = "threads"

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        half = hardware.cores() // 2
        if half < 2:
            return "half of the cores is one thread"
        return "it is so already" if options.intra_op_num_threads == half else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.intra_op_num_threads = hardware.cores() // 2
        return providers


LEVER = ThreadsHalf()
