"""Matrix products in single precision by oneDNN's kernels, on x86 processors."""

import functools
import threading
from typing import Any, Callable, Mapping, Optional

from ...frameworks.pytorch.functions import Replacement, is_ordinary
from ...frameworks.pytorch.kinds import Subject, TorchLever, autocasts

SHARE = 0.1
"""Part of the weights, without those of tables, from which on products may take a part of the time that matters."""

FEWEST = 1 << 16
"""Weights of a layer below which a kernel of its own gains nothing for a single row."""
SHAPES = 16
"""Shapes of weights with which products are compared."""
ALIKE = 1e-5
"""Relative difference (Euclidean norm) that the order of additions may make."""


class OnednnProducts(TorchLever):
    """PyTorch multiplies matrices in single precision by MKL, which uses less of AMD's processors than oneDNN does.

    It takes oneDNN's kernels where their precision may be reduced to bf16 (``mkldnn_matmul``, 2.9 to 2.13), which they
    make use of with AMX alone. Without it they compute in single precision; products show which of both it is here.
    Of a single row, a layer of inference is computed by the kernel that compiled modules use, which is faster still.
    """

    name = "pytorch-onednn-products"
    versions = ">=2.9"
    summary = "matrix products in single precision by oneDNN's kernels in place of MKL's, on processors with AVX-512"
    changes = "kernels"
    within_units = True
    ranks = True
    risk = 2.0  # 128 x 128 by 128 x 10 takes twice as long
    order = 14
    group = "matrix-products"
    conflicts = (
        "pytorch-bf16-weights",
        "pytorch-autocast-bf16",
        "pytorch-autocast-bf16-attention",
        "pytorch-autocast-fp16",
    )
    cpu_features_any = ("avx512bw",)

    def __init__(self) -> None:
        self._before: Optional[str] = None
        """The program's own precision of these products, while another one is set."""
        self._overall: Optional[str] = None
        """What the program had set for all libraries, before."""
        self._users = 0
        """Objects of the program for which it is on; each thread of the program may call its own."""
        self._lock = threading.RLock()  # the end of an optimizer switches it off, in the midst of anything
        self._own: Callable[[], str] = str
        """What tells the program the precision of its products."""
        self._linear = Replacement("linear", _of_rows)

    def applies(self, subject: Subject) -> Optional[str]:
        torch = subject.torch
        if subject.device != "cpu":
            return "the module is not on the processor"
        if not subject.float32:
            return "the weights are not all in single precision"
        if not torch._C._get_mkldnn_enabled() or not torch.backends.mkldnn.is_available():
            return "PyTorch has no oneDNN, or the program has switched it off"
        if _share(subject) < SHARE:
            return "hardly any of the weights are those of matrix products"
        with self._lock:
            if not self._users and _precision(torch) == "bf16":
                return "it is so already"
            if _sets_all(torch):
                return "the program sets the precision of all operations"
            if not self._users and not _in_single(torch):
                return "oneDNN's kernels would compute in a lower precision on this processor"
        return None

    def unsound(self, subject: Subject) -> Optional[str]:
        """Compare products with weights of the module, one of each shape."""
        torch = subject.torch
        factors = (weight for weight in subject.parameters if _is_factor(torch, weight) and is_ordinary(torch, weight))
        shapes = {tuple(weight.shape): weight for weight in factors}
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for (_, columns), weight in list(shapes.items())[:SHAPES]:
                for rows in (1, 5):
                    x = torch.arange(rows * columns, device="cpu", dtype=torch.float32).remainder(7).sub(3)
                    x = x.reshape(rows, columns)
                    plain = torch.nn.functional.linear(x, weight)
                    self.switch(torch, True)
                    try:
                        other = torch.nn.functional.linear(x, weight)
                    finally:
                        self.switch(torch, False)
                    if not bool((other - plain).norm() <= ALIKE * plain.norm()):
                        return "a product with weights of {} x {} has another result".format(*weight.shape)
        return None

    def switch(self, torch: Any, on: bool) -> None:
        with self._lock:  # a handler for a signal may raise anywhere: what it has interrupted is done again, or undone
            if on and not self._users:
                self._begin(torch)
            elif not on and self._users <= 1:
                self._end(torch)
            if on and not torch.is_grad_enabled():  # a training's layers, for which it stays on, have no use for it
                self._linear.put(torch, True)
            self._users = max(0, self._users + (1 if on else -1))

    def _begin(self, torch: Any) -> None:
        if _sets_all(torch):
            return  # the program does so by now
        if self._before is None:
            # Not torch.get_float32_matmul_precision: the program may have imported that one by its name.
            self._own = torch._C._get_float32_matmul_precision
            self._overall = _overall(self._own)
            self._before = _precision(torch)
        torch._C._get_float32_matmul_precision = functools.partial(self._asked, torch)
        _set(torch, "bf16")

    def _end(self, torch: Any) -> None:
        self._linear.put(torch, False)
        if self._before is None:
            return
        torch._C._get_float32_matmul_precision = self._own
        if _precision(torch) == "bf16":  # or the program has set another
            _set(torch, self._before)
            if _overall(self._own) != self._overall:  # it has, for all libraries
                _set(torch, "bf16")
                if _overall(self._own) != "medium":  # to refuse takes PyTorch 10 us, so this is not asked each time
                    _set(torch, self._before)
        self._before = None

    def _asked(self, torch: Any) -> str:
        """Return the program's own precision: PyTorch refuses to answer where it was set for one library alone."""
        with self._lock:
            before = self._before
            overall = _overall(self._own)
            if before is None or overall is not None or _precision(torch) != "bf16":
                return self._own() if overall is None else overall
            _set(torch, before)
            try:
                return self._own()
            finally:
                _set(torch, "bf16")

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is switched at the module's call."""


def _of_rows(torch: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a linear layer that has a kernel of its own for a single row, where no gradient is taken."""
    kernel = torch.ops.mkldnn._linear_pointwise

    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or autocasts(torch) or _is_watched(torch):
            return own(input, weight, bias)
        if not torch._C._get_mkldnn_enabled():
            return own(input, weight, bias)
        tensors = [tensor for tensor in (input, weight, bias) if tensor is not None]
        alike = all(is_ordinary(torch, tensor) and tensor.dtype == torch.float32 for tensor in tensors)
        if alike and _is_row(input, weight, bias):
            return kernel(input, weight, bias, "none", [], "")
        return own(input, weight, bias)

    return linear


def _is_watched(torch: Any) -> bool:
    """Tell whether the program follows PyTorch's operations, or takes derivatives along with them."""
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch.autograd.forward_ad._current_level >= 0
    )


def _is_row(input: Any, weight: Any, bias: Any) -> bool:
    """Tell whether a layer of a size that pays gets one row, of its size: else PyTorch's own words are due."""
    return bool(
        input.dim()
        and weight.dim() == 2
        and input.numel() == input.shape[-1] == weight.shape[1]
        and weight.numel() >= FEWEST
        and (bias is None or bias.shape == weight.shape[:1])
        and all(tensor is None or tensor.is_contiguous() for tensor in (input, weight, bias))
    )


def _precision(torch: Any) -> str:
    return str(torch._C._get_fp32_precision_getter("mkldnn", "matmul"))


def _set(torch: Any, precision: str) -> None:
    # Not by torch.backends.mkldnn.matmul, which fails where the program has frozen the settings.
    torch._C._set_fp32_precision_setter("mkldnn", "matmul", precision)


def _sets_all(torch: Any) -> bool:
    """Tell whether the program sets the precision of all operations.

    It holds for products as well: read as theirs and set again, it would stay for good.
    """
    kinds = (("generic", "all"), ("mkldnn", "all"))
    return any(torch._C._get_fp32_precision_getter(*kind) != "none" for kind in kinds)


def _overall(own: Callable[[], str]) -> Optional[str]:
    """Return the precision of products by all libraries; None where PyTorch refuses to answer."""
    try:
        return str(own())
    except RuntimeError:
        return None


def _is_factor(torch: Any, weight: Any) -> bool:
    return bool(weight.dim() == 2 and weight.dtype == torch.float32)


def _share(subject: Subject) -> float:
    """Return the part of the weights that are factors of matrix products, tables of embeddings apart."""
    nn = subject.torch.nn
    tables = [module.weight for module in subject.modules if isinstance(module, (nn.Embedding, nn.EmbeddingBag))]
    others = [weight for weight in subject.parameters if not any(weight is table for table in tables)]
    factors = sum(weight.numel() for weight in others if _is_factor(subject.torch, weight))
    return float(factors / max(1, sum(weight.numel() for weight in others)))


@functools.lru_cache(maxsize=None)
def _in_single(torch: Any) -> bool:
    """Tell whether products are in single precision where bf16 is permitted; found out once, in some milliseconds.

    In bf16 each factor would be 1, and each value of the product the number of columns.
    """
    before = _precision(torch)
    _set(torch, "bf16")
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            left, right = (
                torch.full(size, 1 + 2.0**-10, dtype=torch.float32, device="cpu") for size in ((64, 256), (256, 64))
            )
            products = (left @ right, torch.bmm(left[None], right[None]))
    finally:
        _set(torch, before)
    exact = 256 * (1 + 2.0**-10) ** 2
    return all(abs(float(value) / exact - 1) < 1e-5 for product in products for value in product.aminmax())


LEVER = OnednnProducts()
