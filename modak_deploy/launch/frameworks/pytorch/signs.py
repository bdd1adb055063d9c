"""Which kinds of numbers PyTorch's operations may make of what they are given, as they are dispatched to a device."""

from typing import Any, Callable, Dict, NamedTuple, Optional

from .. import signs
from ..signs import ANY, FINITE, HIGHEST, INFINITE, LOWEST, NEGATIVE, NONE, POSITIVE, ZERO


class Given(NamedTuple):
    """What an operation is given."""

    args: Any
    kwargs: Any
    kinds: Callable[[Any], int]
    """The kinds of numbers of a tensor, a number, or a list of these."""
    varying: Callable[[Any], bool]
    """Whether a value is a tensor that is made of the arguments of the call."""

    def at(self, position: int = 0) -> int:
        """Return the kinds of numbers of an argument; none where it is not given."""
        return self.kinds(self.args[position]) if position < len(self.args) else 0

    def all(self) -> int:
        """Return the kinds of numbers of all tensors that are made of the call's arguments."""
        values = [*self.args, *self.kwargs.values()]
        result = 0
        for value in values:
            for item in value if isinstance(value, (tuple, list)) else (value,):
                result |= self.kinds(item) if self.varying(item) else 0
        return result


Rule = Callable[[Given], int]


def _finite(given: Given) -> int:
    """Finite where all is finite, as of layers with weights."""
    others = given.all() & ~FINITE
    return FINITE | (INFINITE | NONE if others else 0)


def _not_negative(given: Given) -> int:
    return _finite(given) & ~(LOWEST | NEGATIVE)


def _same(given: Given) -> int:
    """Numbers of what is given and no others, as where they are put into another order."""
    return given.kinds(given.args)


def _filled(position: int) -> Rule:
    """Numbers of the first argument, and that of another one in some places."""
    return lambda given: given.at() | (given.at(position) if len(given.args) > position else ZERO)


def _quotient(given: Given) -> int:
    return signs.divided(given.at(), given.at(1)) | (ZERO if given.kwargs.get("rounding_mode") else 0)


def _attention(given: Given) -> int:
    """Of rows of a mask that are minus infinity throughout there is none; whoever follows it sees to that."""
    others = (given.at(0) | given.at(1) | given.at(2)) & ~FINITE
    mask = (given.kinds(given.kwargs.get("attn_mask")) | given.at(3)) & (HIGHEST | NONE)
    return FINITE | (NONE if others or mask else 0)


def _bounded(kinds: int) -> Rule:
    return lambda given: kinds | given.at() & NONE


def _keeping(given: Given) -> int:
    """As of activations that scale what is below zero."""
    return FINITE | given.at() & (INFINITE | NONE)


def _of_first(function: Callable[[int], int]) -> Rule:
    return lambda given: function(given.at())


def _of_two(function: Callable[[int, int], int]) -> Rule:
    return lambda given: function(given.at(), given.at(1))


def _factor(given: Given) -> float:
    alpha = given.kwargs.get("alpha", given.args[2] if len(given.args) > 2 else 1)
    return float(alpha)


def _added(given: Given) -> int:
    return signs.added(given.at(), signs.scaled(given.at(1), _factor(given)))


def _subtracted(given: Given) -> int:
    return signs.added(given.at(), signs.scaled(given.at(1), -_factor(given)))


def _subtracted_from(given: Given) -> int:
    return signs.added(given.at(1), signs.scaled(given.at(), -_factor(given)))


def _added_products(given: Given) -> int:
    if given.kwargs.get("beta", 1) != 1:
        return _finite(given)
    others = any(given.varying(value) and given.kinds(value) & ~FINITE for value in given.args[1:3])
    return signs.added(given.at(), FINITE | (INFINITE | NONE if others else 0))


def _all_of_first(given: Given) -> int:
    """Those of all of several tensors, whatever their types."""
    kinds = 0
    for tensor in given.args[0]:
        kinds |= given.kinds(tensor)
    return kinds


def _multiplied(given: Given) -> int:
    if given.args[0] is given.args[1]:
        return signs.powered(given.at(), 2.0)
    for position in (0, 1):
        if isinstance(given.args[position], (bool, int, float)):
            return signs.scaled(given.at(1 - position), float(given.args[position]))
    return signs.multiplied(given.at(), given.at(1))


def _powered(given: Given) -> int:
    exponent = given.args[1]
    if isinstance(exponent, (int, float)):
        return signs.powered(given.at(), float(exponent))
    above = given.at() & ~(ZERO | POSITIVE) == 0 and given.at(1) & ~FINITE == 0
    return ZERO | POSITIVE | HIGHEST if above else ANY


def _remainder(given: Given) -> int:
    divisor = given.at(1)
    return FINITE if not given.at() & ~FINITE and divisor in (NEGATIVE, POSITIVE) else FINITE | NONE


def _clamped(given: Given) -> int:
    limits = {"min": 1, "max": 2}
    low, high = (given.kwargs.get(name, (*given.args, None, None)[position]) for name, position in limits.items())
    kinds = given.at()
    if low is not None:
        kinds = signs.larger(kinds, given.kinds(low))
    return kinds if high is None else signs.smaller(kinds, given.kinds(high))


def _rectified(given: Given) -> int:
    return signs.larger(given.at(), ZERO)


def _rounded(given: Given) -> int:
    return given.at() | ZERO


def _normed(position: int) -> Rule:
    """As of layers that divide by a deviation, to which they add a number that is given."""

    def rule(given: Given) -> int:
        added = given.args[position] if position < len(given.args) else None
        return _finite(given) | (0 if isinstance(added, float) and added > 0 else NONE)

    return rule


def _softmax(given: Given) -> int:
    """Of what is minus infinity throughout there is none; whoever follows it sees to that."""
    return ZERO | POSITIVE | (NONE if given.at() & (HIGHEST | NONE) else 0)


def _log_softmax(given: Given) -> int:
    return NEGATIVE | ZERO | given.at() & LOWEST | (NONE if given.at() & (HIGHEST | NONE) else 0)


def _cleaned(given: Given) -> int:
    return FINITE


RULES: Dict[str, Rule] = {
    **dict.fromkeys(
        ("_addmm_activation", "_cdist_forward", "_embedding_bag", "_embedding_bag_forward_only", "_fused_rms_norm",
         "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_native_multi_head_attention",
         "_transformer_encoder_layer_fwd", "addbmm", "addmv", "addr", "bilinear", "bmm", "col2im", "conv1d", "conv2d",
         "affine_grid_generator", "conv3d", "conv_transpose2d", "convolution",
         "convolution_overrideable", "cos", "cumsum", "dot", "embedding",
         "gelu", "glu", "grid_sampler_2d", "grid_sampler_2d_cpu_fallback", "grid_sampler_3d", "hardswish",
         "index_add", "lerp", "linear", "lstm", "logsumexp", "mish", "mkldnn_rnn_layer", "mm", "mv",
         "native_batch_norm", "prod", "scatter_add", "silu", "sin", "tan", "upsample_bicubic2d", "upsample_bilinear2d",
         "upsample_linear1d", "upsample_nearest1d",
         "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d", "vdot", "_upsample_bilinear2d_aa",
         "_upsample_bicubic2d_aa", "_upsample_nearest_exact2d", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
         "cudnn_convolution", "_cudnn_rnn", "cudnn_batch_norm", "mkldnn_convolution"),
        _finite),
    **dict.fromkeys(
        ("_prelu_kernel", "prelu", "celu", "elu", "leaky_relu", "rrelu_with_noise", "selu"), _keeping),
    **dict.fromkeys(
        ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        _of_first(signs.summed)),
    **dict.fromkeys(("linalg_vector_norm", "norm", "std", "var", "std_mean", "var_mean"), _not_negative),
    **dict.fromkeys(
        ("_pdist_forward", "_unsafe_index", "_unsafe_view", "adaptive_max_pool2d", "adaptive_max_pool3d", "alias",
         "amax", "amin", "aminmax", "as_strided", "clone", "contiguous", "copy", "cummax", "cummin", "detach",
         "diagonal", "expand", "flip", "gather", "index", "index_copy", "index_put", "index_select",
         "kthvalue", "lift_fresh", "masked_scatter", "max", "max_pool2d_with_indices",
         "max_pool3d_with_indices", "median", "min", "movedim", "narrow", "permute", "pixel_shuffle",
         "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat",
         "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "rot90",
         "select", "select_scatter", "slice", "slice_scatter", "sort", "split", "split_with_sizes", "squeeze",
         "stack", "t", "topk", "transpose", "unbind", "unfold", "unsafe_chunk", "unsafe_split",
         "unsafe_split_with_sizes", "unsqueeze", "view", "_reshape_alias", "channel_shuffle",
         "native_channel_shuffle", "native_dropout", "reshape", "_to_copy", "fmax", "fmin"),
        _same),
    **dict.fromkeys(("block_diag", "im2col", "max_unpool2d"), lambda given: _same(given) | ZERO),
    **dict.fromkeys(
        ("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"),
        _attention),
    "_log_softmax": _log_softmax,
    "_safe_softmax": _softmax,
    "_softmax": _softmax,
    "abs": _of_first(signs.absolute),
    "add": _added,
    "addcmul": _finite,
    "addmm": _added_products,
    "asinh": _keeping,
    "atan": _bounded(FINITE),
    "atan2": _bounded(FINITE),
    "baddbmm": _added_products,
    "cat": _all_of_first,
    "ceil": _rounded,
    "clamp": _clamped,
    "clamp_max": _of_two(signs.smaller),
    "clamp_min": _of_two(signs.larger),
    "constant_pad_nd": _filled(2),
    "cosh": lambda given: POSITIVE | HIGHEST | given.at() & NONE,
    "copy_": lambda given: given.at(1),
    "div": _quotient,
    "erf": _bounded(FINITE),
    "exp": _of_first(signs.exponentials),
    "exp2": _of_first(signs.exponentials),
    "expm1": lambda given: FINITE | signs.exponentials(given.at()) & (HIGHEST | NONE),
    "fill": lambda given: given.at(1),
    "floor": _rounded,
    "floor_divide": lambda given: signs.divided(given.at(), given.at(1)) | ZERO,
    "fmod": _remainder,
    "frac": lambda given: FINITE | (NONE if given.at() & ~FINITE else 0),
    "hardsigmoid": _bounded(ZERO | POSITIVE),
    "hardtanh": _clamped,
    "index_fill": _filled(3),
    "log": _of_first(signs.logarithms),
    "log10": _of_first(signs.logarithms),
    "log1p": lambda given: signs.logarithms(signs.added(given.at(), POSITIVE)),
    "log2": _of_first(signs.logarithms),
    "log_sigmoid_forward": lambda given: NEGATIVE | ZERO | given.at() & (LOWEST | NONE),
    "masked_fill": _filled(2),
    "maximum": _of_two(signs.larger),
    "mean": _of_first(signs.summed),
    "minimum": _of_two(signs.smaller),
    "mul": _multiplied,
    "nan_to_num": _cleaned,
    "native_group_norm": _normed(7),
    "native_layer_norm": _normed(4),
    "neg": _of_first(signs.negated),
    "pow": _powered,
    "reciprocal": lambda given: signs.divided(POSITIVE, given.at()),
    "relu": _rectified,
    "remainder": _remainder,
    "round": _rounded,
    "rsqrt": lambda given: signs.divided(POSITIVE, signs.roots(given.at())),
    "rsub": _subtracted_from,
    "sgn": _bounded(FINITE),
    "sigmoid": _bounded(ZERO | POSITIVE),
    "scatter": _filled(3),
    "sign": _bounded(FINITE),
    "sinh": lambda given: FINITE | INFINITE | given.at() & NONE,
    "softplus": lambda given: ZERO | POSITIVE | given.at() & (HIGHEST | NONE),
    "sqrt": _of_first(signs.roots),
    "square": lambda given: signs.powered(given.at(), 2.0),
    "sub": _subtracted,
    "sum": _of_first(signs.summed),
    "tanh": _bounded(FINITE),
    "threshold": _filled(2),
    "tril": _rounded,
    "triu": _rounded,
    "trunc": _rounded,
    "where": lambda given: given.at(1) | given.at(2),
    "zero": lambda given: ZERO,
}  # fmt: skip
"""What each operation may make; of one that is not here, anything."""


def made(name: str, given: Given) -> int:
    """Return the kinds of numbers that an operation may make; in position, it is the same as otherwise."""
    rule: Optional[Rule] = RULES.get(name) or RULES.get(name.rstrip("_"))
    try:
        return ANY if rule is None else rule(given)
    except (IndexError, TypeError, ValueError):  # arguments that another version gives it
        return ANY
