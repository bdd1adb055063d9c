"""Threads that sleep while they wait."""

from typing import Any, List, Optional

from ...frameworks.onnxruntime.kinds import OrtLever


class NoSpinning(OrtLever):
    name = "onnxruntime-no-spinning"
    summary = "threads sleep between operations: other threads of the program get the cores"
    changes = "threads"
    risk = 2.0
    order = 40

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        return "one thread does not wait" if options.intra_op_num_threads == 1 else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        return providers


LEVER = NoSpinning()
