"""As many threads as the process has cores."""

import os
from typing import Any, List, Optional

from ... import hardware
from ...frameworks.onnxruntime.kinds import OrtLever


class ThreadsCores(OrtLever):
    name = "onnxruntime-threads-cores"
    summary = "as many threads within an operation as the process may use cores"
    changes = "threads"
    risk = 2.0
    order = 20
    group = "threads"

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        # Zero stands for the machine's physical cores, which a cgroup's quota may not grant.
        count = options.intra_op_num_threads or os.cpu_count()
        return "it is so already" if count == hardware.cores() else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.intra_op_num_threads = hardware.cores()
        return providers


LEVER = ThreadsCores()
