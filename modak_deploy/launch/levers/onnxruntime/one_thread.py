"""One thread, for models too small to divide."""

from typing import Any, List, Optional

from ...frameworks.onnxruntime.kinds import OrtLever


class OneThread(OrtLever):
    name = "onnxruntime-one-thread"
    summary = "one thread within an operation, for models too small to divide"
    changes = "threads"
    order = 30
    group = "threads"

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        return "it is so already" if options.intra_op_num_threads == 1 else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.intra_op_num_threads = 1
        return providers


LEVER = OneThread()
