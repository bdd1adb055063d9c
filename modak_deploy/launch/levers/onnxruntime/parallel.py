"""Operations that do not depend on one another at the same time."""

from typing import Any, List, Optional

from ...frameworks.onnxruntime.kinds import OrtLever


class Parallel(OrtLever):
    name = "onnxruntime-parallel"
    summary = "branches of the graph at the same time"
    changes = "threads"
    risk = 2.0
    order = 50

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        return "it is so already" if options.execution_mode == module.ExecutionMode.ORT_PARALLEL else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.execution_mode = module.ExecutionMode.ORT_PARALLEL
        return providers


LEVER = Parallel()
