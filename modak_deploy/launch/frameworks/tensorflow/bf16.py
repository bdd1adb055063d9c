"""TensorFlow's graph optimiser turns matrix products and convolutions to bf16, for chosen calls of functions only."""

import contextlib
import importlib
from typing import Any, Iterator, Optional

from ... import hardware

FEATURES = frozenset(("amx_bf16", "avx512_bf16"))
"""Processor features without which oneDNN emulates bf16."""


def refusal(tensorflow: Any) -> Optional[str]:
    """Return why the graph optimiser's bf16 is not offered; None where nothing speaks against it."""
    if tensorflow.config.list_physical_devices("GPU"):
        return "the pass is oneDNN's, for processors"
    if not hardware.cpu_features() & FEATURES:
        return "the processor has no bf16 arithmetic ({})".format(", ".join(sorted(FEATURES)))
    return None


def on_for_all(tensorflow: Any) -> None:
    """Switch it on for the whole process, by TensorFlow's own option."""
    tensorflow.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})


@contextlib.contextmanager
def calls() -> Iterator[None]:
    """Have functions called within use it.

    A call of a function carries the options of its graph's optimisation, which TensorFlow's context keeps for each
    thread (``function_call_options`` in tensorflow/python/eager/context.py). The runtime keeps what it made of a
    function for each set of options, so that going back costs nothing. The public ``set_experimental_options`` does the
    same for all threads and for what else the program calls, which is not asked for here.
    """
    context = importlib.import_module("tensorflow.python.eager.context")
    current = context.context()
    own = current.function_call_options
    current.function_call_options = _options(context, own)
    try:
        yield
    finally:
        current.function_call_options = own


_made: Any = {}


def _options(context: Any, own: Any) -> Any:
    """Return a thread's options with the pass on; made once for each set of its own."""
    key = (own.executor_type, own.config_proto_serialized)
    if key not in _made:
        config = importlib.import_module("tensorflow.core.protobuf.config_pb2").ConfigProto()
        config.ParseFromString(own.config_proto_serialized)
        rewriter = importlib.import_module("tensorflow.core.protobuf.rewriter_config_pb2").RewriterConfig
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = rewriter.ON
        _made[key] = context.FunctionCallOptions(executor_type=own.executor_type, config_proto=config)
    return _made[key]
