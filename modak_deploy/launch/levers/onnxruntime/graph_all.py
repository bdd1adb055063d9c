"""All optimisations of the graph."""

from typing import Any, List, Optional

from ...frameworks.onnxruntime.kinds import OrtLever


class GraphAll(OrtLever):
    name = "onnxruntime-graph-all"
    summary = "all optimisations of the graph"
    changes = "kernels"
    risk = 1.5
    order = 10

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
        return "it is so already" if options.graph_optimization_level == level else None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        options.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
        return providers


LEVER = GraphAll()
