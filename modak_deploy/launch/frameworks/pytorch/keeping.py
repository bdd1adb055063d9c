"""Operations that lose nothing: what is not a number (NaN) stays so, as it does in PyTorch.

All others are taken to lose it. These were looked at, by themselves and after convolutions and products (ONNX Runtime
1.32 and OpenVINO 2026.4, on AMD EPYC with AVX2 and with AVX-512), and are again by
tests/unit/launch/frameworks/pytorch/test_keeping.py. Both lose it in pooling of the largest, in the largest and
smallest of several, and in their places; OpenVINO also in Relu, what is clamped, exponentials, and softmax, and ONNX
Runtime in recurrent layers. With AVX-512, what is not a number is greater than all for OpenVINO; less than one it is
nowhere.
"""

from typing import Dict, FrozenSet

MOVING = frozenset(
    ("_to_copy", "_unsafe_view", "alias", "cat", "clone", "constant_pad_nd", "detach", "expand", "flip", "gather",
     "index", "index_select", "masked_fill", "permute", "pixel_shuffle", "repeat", "roll", "scatter", "select", "slice",
     "split", "split_with_sizes", "squeeze", "stack", "t", "transpose", "tril", "unbind", "unsqueeze", "view", "where")
)  # fmt: skip
"""Those whose results hold numbers of their arguments and no others."""
COMPUTING = frozenset(
    ("_adaptive_avg_pool2d", "_prelu_kernel", "abs", "add", "addcmul", "addmm", "all", "any", "atan", "avg_pool2d",
     "bmm", "ceil", "convolution", "cos", "cumsum", "div", "elu", "eq", "erf", "floor", "gelu", "glu", "hardswish",
     "isnan", "le", "leaky_relu", "linalg_vector_norm", "log", "log1p", "lt", "mean", "mish", "mm", "mul", "nan_to_num",
     "native_batch_norm", "native_group_norm", "native_layer_norm", "ne", "neg", "pow", "prod", "reciprocal", "round",
     "rsqrt", "rsub", "sigmoid", "silu", "sin", "softplus", "sqrt", "std", "sub", "sum", "tanh", "upsample_bilinear2d",
     "upsample_nearest2d", "var")
)  # fmt: skip
MORE = frozenset(
    ("_log_softmax", "_softmax", "clamp", "clamp_min", "exp", "expm1", "ge", "gt", "hardsigmoid", "hardtanh",
     "logical_not", "maximum", "minimum", "relu")
)  # fmt: skip
"""Those that lose nothing in ONNX Runtime alone."""
KEEPING: Dict[str, FrozenSet[str]] = {
    "onnxruntime": MOVING | COMPUTING | MORE,
    "openvino": MOVING | COMPUTING,
}
