"""The program's outermost function compiled by XLA."""

from typing import Any, Callable, Optional

from ...frameworks.tensorflow import xla
from ...frameworks.tensorflow.kinds import Graph, TensorFlowLever


class JitCompile(TensorFlowLever):
    name = "tensorflow-jit-compile"
    summary = "the outermost function compiled by XLA (jit_compile of tf.function)"
    changes = "compilation"
    expensive = True
    order = 80
    group = "compilation"

    def applies(self, tensorflow: Any, function: Any, graph: Graph) -> Optional[str]:
        if getattr(function, "_jit_compile", None) is not None:
            return "the program decides on jit_compile itself"
        if graph.random:
            return "the function draws random numbers, and XLA draws others"
        if graph.effects:
            return "XLA cannot compile {}".format(sorted(graph.effects)[0])
        return xla.refusal([graph], bool(graph.changing)) or xla.unchecked(tensorflow, [graph.concrete])

    def check(self, tensorflow: Any, graph: Graph) -> Optional[Callable[[Any, Any], None]]:
        limits = xla.Limits(tensorflow, [graph.concrete])

        def check(args: Any, kwargs: Any) -> None:
            limits.check((args, kwargs))

        return check

    def function(self, tensorflow: Any, function: Any, graph: Graph) -> Any:
        # Not the Python function: tracing it again would repeat what it does in Python, and take the values that
        # variables of Python have now, where the program goes on with those of its own first call.
        traced = graph.concrete
        return xla.jitted(tensorflow, lambda *args, **kwargs: traced(*args, **kwargs))


LEVER = JitCompile()
