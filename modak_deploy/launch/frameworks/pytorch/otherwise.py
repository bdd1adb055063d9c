"""Operations that ONNX Runtime 1.32 or OpenVINO 2026.4 does in another way than PyTorch 2.13, for some values alone.

What differs for all values shows in the first comparison of results. The rest was found by doing each operation in all
three ways, with numbers at its limits; what a converted model itself shows is refused where it is made.
"""

import math
from typing import Any, Callable, Dict, Optional

from ..signs import HIGHEST, LOWEST
from .signs import Given

Refusal = Callable[[Given], Optional[str]]
POSITIONS: Dict[str, int] = {"kthvalue": 1, "median": 1, "mode": 1, "sort": 1, "topk": 1}
"""Operations of which one result tells places: of equal numbers each library takes others first."""
EQUALS = "which of equal numbers is first is decided in another way"
DEFAULT_THRESHOLD = 20
HALF = 0.5


def _positional(given: Given, position: int, name: str, usual: Any) -> Any:
    return given.kwargs.get(name, given.args[position] if len(given.args) > position else usual)


def _bags(given: Given) -> Optional[str]:
    if _positional(given, 8, "padding_idx", -1) >= 0:
        return "words that are left out of a bag are counted"
    return "the last bag may be empty, which is filled then" if given.varying(given.args[2]) else None


def _softplus(given: Given) -> Optional[str]:
    beta, threshold = _positional(given, 1, "beta", 1), _positional(given, 2, "threshold", DEFAULT_THRESHOLD)
    usual = beta == 1 and threshold == DEFAULT_THRESHOLD
    return None if usual else "softplus is done with its usual threshold alone"


def _floored(given: Given) -> Optional[str]:
    real = any(getattr(value, "is_floating_point", lambda: False)() for value in given.args)
    divisor = given.args[1]
    exact = isinstance(divisor, (int, float)) and abs(math.frexp(divisor)[0]) == HALF  # by a power of two
    return "quotients are rounded before they are cut off" if real and not exact else None


def _quotient(given: Given) -> Optional[str]:
    return _floored(given) if given.kwargs.get("rounding_mode") == "floor" else None


def _rounded(given: Given) -> Optional[str]:
    return "numbers are rounded to whole ones" if given.kwargs.get("decimals") else None


def _largest(given: Given) -> Optional[str]:
    return "the largest of numbers that are all minus infinity is finite" if given.at() & LOWEST else None


def _smallest(given: Given) -> Optional[str]:
    return "the smallest of numbers that are all infinite is finite" if given.at() & HIGHEST else None


OPENVINO: Dict[str, Refusal] = {
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bags),
    **dict.fromkeys(("adaptive_max_pool2d", "amax", "max", "max_pool2d_with_indices"), _largest),
    **dict.fromkeys(("amin", "min"), _smallest),
    "div": _quotient,
    "floor_divide": _floored,
    "round": _rounded,
    "softplus": _softplus,
}
ONNX_RUNTIME: Dict[str, Refusal] = {"div": _quotient, "floor_divide": _floored}
