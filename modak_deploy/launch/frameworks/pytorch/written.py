"""Which traces the exporter of TorchScript writes as ONNX models that do what PyTorch does, whatever the values are.

It writes some operations otherwise, as whole numbers' division towards minus infinity, which is one towards zero there
(PyTorch 2.13), and results of other types. What was not looked at is exported by ``torch.export``, which takes longer.
"""

from typing import Any, List

ALIKE = frozenset(
    ("Int", "_convolution", "_convolution_mode", "adaptive_avg_pool2d", "add", "add_", "addmm", "arange",
     "avg_pool2d", "batch_norm", "bmm", "cat", "chunk", "contiguous", "detach", "div", "div_", "dropout",
     "dropout_", "elu", "embedding", "eq", "exp", "expand", "expand_as", "flatten", "full", "ge", "gelu",
     "group_norm", "gru", "gt", "hardsigmoid", "hardsigmoid_", "hardswish", "hardswish_", "hardtanh",
     "hardtanh_", "instance_norm", "layer_norm", "le", "leaky_relu", "leaky_relu_", "linear", "log_softmax",
     "lstm", "lt", "masked_fill", "matmul", "max_pool1d", "max_pool2d", "mean", "mm", "mul", "mul_", "ne",
     "neg", "ones", "ones_like", "permute", "pixel_shuffle", "pow", "prelu", "relu", "relu_", "reshape",
     "rnn_tanh", "rsqrt", "rsub", "scaled_dot_product_attention", "select", "sigmoid", "sigmoid_", "silu",
     "silu_", "size", "slice", "softmax", "softplus", "split", "split_with_sizes", "sqrt", "squeeze", "stack",
     "sub", "sub_", "sum", "t", "tanh", "tanh_", "to", "transpose", "type_as", "unbind", "unsqueeze",
     "upsample_nearest2d", "view", "where", "zeros", "zeros_like")
)  # fmt: skip
"""Operations that were written as by the other exporter, for ordinary, odd and whole numbers alike."""
DISPATCHED = ALIKE | frozenset(
    ("_adaptive_avg_pool2d", "_log_softmax", "_prelu_kernel", "_scaled_dot_product_flash_attention_for_cpu",
     "_softmax", "_to_copy", "_unsafe_view", "clone", "conv1d", "conv2d", "conv3d", "conv_transpose2d",
     "convolution", "empty", "max_pool2d_with_indices", "mkldnn_rnn_layer", "native_batch_norm",
     "native_group_norm", "native_layer_norm", "scalar_tensor", "unsafe_split")
)  # fmt: skip
"""Names of the operations that those become on a processor."""


PLAIN = ("Constant", "GetAttr", "ListConstruct", "ListUnpack", "NumToTensor", "TupleConstruct", "TupleUnpack")
"""Nodes of TorchScript's own that decide nothing, and hold no graph."""


TAKEN_FOR = {"avg_pool2d": (6, None), "batch_norm": (5, False), "softplus": (2, 20)}
"""Operations, and which argument the exporter takes to be what: the divisor of averages, whether statistics are
those of the batch, and from where on numbers stay as they are."""
PASSING = ("aten::dropout", "aten::type_as")
"""Operations whose result may be their argument itself, of which their schemas say nothing."""


def is_alike(graph: Any) -> bool:
    """Tell whether a graph consists of operations alone that are written as PyTorch does them."""
    return not writes_views(graph) and all(_is_written_alike(node) for node in graph.nodes())


def _is_written_alike(node: Any) -> bool:
    space, _, name = str(node.kind()).partition("::")
    if space != "aten":
        return space == "prim" and name in PLAIN
    sources = list(node.inputs())
    if name == "floor_divide":  # of sizes, which are not negative
        return {value.node().kind() for value in sources} <= {"prim::NumToTensor", "prim::Constant"}
    if name in TAKEN_FOR:
        number, value = TAKEN_FOR[name]
        return sources[number].node().kind() == "prim::Constant" and bool(sources[number].toIValue() == value)
    if name.startswith("div"):  # a third argument tells how to round
        return len(sources) == 2 and sources[1].node().kind() not in ("aten::sigmoid", "aten::sigmoid_")
    return name in ALIKE


def writes_views(graph: Any) -> bool:
    """Tell whether an operation of a graph changes what others have memory in common with: a part, a whole, a weight.

    The exporter to ONNX takes such an operation's result for a tensor of its own (PyTorch 2.13). Schemas tell which
    results share memory with an argument, as ``Tensor(a)``, and which arguments are written, as ``Tensor(a!)``.
    """
    for node in graph.nodes():
        if "!)" not in node.schema().partition("->")[0]:
            continue
        if not node.kind().endswith("_"):  # it writes to ``out``
            return True
        written = next(node.inputs())
        source = written.node()
        while source.kind() == "prim::ListUnpack":
            source = next(source.inputs()).node()
        # What uses the value later uses the result of this operation in a trace.
        if source.kind() in ("prim::Param", "prim::GetAttr") or any(map(_shares, (source, *_users(written)))):
            return True
    return False


def _users(value: Any) -> List[Any]:
    return [use.user for use in value.uses()]


def _shares(node: Any) -> bool:
    """Tell whether a result of an operation is memory of an argument."""
    return node.kind() in PASSING or "a)" in node.schema().partition("->")[2]
