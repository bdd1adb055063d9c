"""Whether bf16 pays on this processor: what it declares, and what small products and convolutions take."""

import functools
from typing import Any, Callable, Dict, Optional

from ... import clock, hardware

FEATURES = frozenset(("amx_bf16", "avx512_bf16", "bf16"))
"""Processor features of x86 and Arm for bf16 arithmetic, as Linux names them; without one it is emulated."""
ATTEMPTS = 9
"""Repetitions of which the fastest counts: a neighbour's load makes the others longer."""
SLOWER = 2.0
"""Times the single-precision kernels' time from which bf16 is not offered; below it a trial decides."""

_factors: Dict[str, float] = {}


def refusal(torch: Any, device: str) -> Optional[str]:
    """Return why bf16 is not offered on a device; None where nothing speaks against it."""
    if device != "cpu":
        return None
    if not hardware.cpu_features() & FEATURES:
        return "the processor has no bf16 arithmetic ({})".format(", ".join(sorted(FEATURES)))
    try:
        slower = factor(torch)
    except Exception as error:  # a release or build of PyTorch without these kernels
        return "bf16 kernels fail: {}: {}".format(type(error).__name__, error)
    if slower > SLOWER:
        return "bf16 kernels take {:.3g} times as long as those in single precision".format(slower)
    return None


def factor(torch: Any) -> float:
    """Return how many times as long the kernels take in bf16; measured once, in some milliseconds.

    Neither the program's module nor its random numbers nor its graph of gradients have a part in it.
    """
    if "cpu" not in _factors:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            _factors["cpu"] = _measured(torch)
    return _factors["cpu"]


def _measured(torch: Any) -> float:
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = (torch.ones(size, dtype=dtype) for size in ((64, 256), (256, 256)))
        images, weight = (torch.ones(size, dtype=dtype) for size in ((2, 64, 14, 14), (64, 64, 3, 3)))
        seconds[dtype] = (
            _fastest(functools.partial(torch.matmul, left, right)),
            _fastest(functools.partial(_convolve, torch, images, weight)),
        )
    pairs = zip(seconds[torch.bfloat16], seconds[torch.float32])
    return min(relaxed / single for relaxed, single in pairs)


def _convolve(torch: Any, images: Any, weight: Any) -> Any:
    """Do a convolution and, as training does, the gradient of its weights."""
    torch.nn.functional.conv2d(images, weight, padding=1)
    return torch.nn.grad.conv2d_weight(images, weight.shape, images[:, :64], padding=1)


def _fastest(work: Callable[[], Any]) -> float:
    work()
    times = []
    for _ in range(ATTEMPTS):
        start = clock.now()
        work()
        times.append(clock.now() - start)
    return min(times)
