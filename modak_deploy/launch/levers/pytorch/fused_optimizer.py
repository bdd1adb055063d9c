"""The optimizer's step as one kernel."""

import itertools
import operator
from typing import Any, Dict, List, Mapping, Optional

from ...frameworks.pytorch.kinds import OptimizerOption, Subject

OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adagrad")
_GRADIENT, _DTYPE = map(operator.attrgetter, ("grad", "dtype"))


class FusedOptimizer(OptimizerOption):
    name = "pytorch-fused-optimizer"
    versions = ">=2.4"  # fused steps on processors came with 2.4
    summary = "the optimizer's step as one kernel for all weights"
    risk = 1.5
    order = 15
    option = "fused"

    @staticmethod
    def is_open(group: Mapping[str, Any]) -> bool:
        return OptimizerOption.is_open(group) and not group.get("capturable")

    def applies(self, subject: Subject) -> Optional[str]:
        optimizer = subject.optimizer
        if optimizer is None or type(optimizer).__name__ not in OPTIMIZERS:
            return "the optimizer {} has no fused step".format(type(optimizer).__name__)
        if not type(optimizer).__module__.startswith("torch.optim"):
            return "the optimizer is not PyTorch's own"
        for group in optimizer.param_groups:
            if not self.is_open(group):
                return "the program has chosen how the optimizer steps"
            if "fused" not in group or not all(parameter.is_floating_point() for parameter in group["params"]):
                return "the optimizer's weights do not allow a fused step"
        return None

    def fits(self, torch: Any, optimizer: Any, group: Mapping[str, Any]) -> bool:
        # Sparse gradients are refused, memory is taken as it lies, whatever its strides, and momentum is there for all
        # weights or for none (torch/optim/sgd.py and aten/src/ATen/native/cpu/FusedSGDKernel.cpp, 2.13).
        weights = group["params"]
        gradients = list(map(_GRADIENT, weights))
        if any(map(operator.is_, gradients, itertools.repeat(None))):
            weights = [weight for weight in weights if weight.grad is not None]
            gradients = list(map(_GRADIENT, weights))
        # Kernels take the count of steps for numbers in single precision, whatever they are: with those of a default of
        # float64, all weights become NaN on GPUs (aten/src/ATen/native/cuda/fused_adam_impl.cu, 2.13).
        if not _is_counted_in(torch.float32, torch, optimizer, weights):
            return False
        if not all(dtype.is_floating_point for dtype in set(map(_DTYPE, weights))):  # complex ones may have come later
            return False
        if group.get("momentum") and not _is_momentum_alike(optimizer, weights):
            return False
        contiguous = torch.Tensor.is_contiguous  # which sparse gradients are not
        both = itertools.chain(gradients, weights)
        return all(map(contiguous, both)) or all(map(_lie_alike, weights, gradients))

    # Fused steps count on the device, others on the processor. Between two fused steps the counts stay on the device,
    # as copies would wait for it; what is saved has them on the processor.

    def switch_training(self, subject: Subject, on: bool) -> None:
        super().switch_training(subject, on)
        if not on:
            for group in getattr(subject.optimizer, "param_groups", []):
                if self.is_open(group):
                    _count(subject.torch, subject.optimizer, group, "cpu")

    def optimizing(self, torch: Any, optimizer: Any, on: bool) -> None:
        super().optimizing(torch, optimizer, on)
        for group in self._groups:  # each time, as the program may have loaded a state
            _count(torch, optimizer, group, None)

    def saved(self, optimizer: Any, state: Dict[str, Any]) -> None:
        super().saved(optimizer, state)
        entries = state["state"]
        for group in filter(self.is_open, state["param_groups"]):
            for index in group["params"]:
                step = entries.get(index, {}).get("step")
                if getattr(step, "is_cuda", False):
                    entries[index] = {**entries[index], "step": step.cpu()}


def _is_momentum_alike(optimizer: Any, weights: List[Any]) -> bool:
    """Tell whether momentum is there for all weights or for none."""
    state = optimizer.state
    complete = len(state) == sum(len(group["params"]) for group in optimizer.param_groups)
    if complete and len({entry.get("momentum_buffer") is None for entry in state.values()}) == 1:  # soon looked up
        return True
    return len({state.get(weight, {}).get("momentum_buffer") is None for weight in weights}) <= 1


def _is_counted_in(dtype: Any, torch: Any, optimizer: Any, weights: List[Any]) -> bool:
    """Tell whether all tensors that count steps have a type."""
    state = optimizer.state
    counts = (state[weight].get("step") for weight in weights if weight in state)
    return all(count.dtype == dtype for count in counts if torch.is_tensor(count))


def _lie_alike(weight: Any, gradient: Any) -> bool:
    """Tell whether a gradient lies in memory as its weight does."""
    if gradient.layout != weight.layout:
        return False
    return bool(gradient.stride() == weight.stride() or (gradient.is_contiguous() and weight.is_contiguous()))


def _count(torch: Any, optimizer: Any, group: Mapping[str, Any], device: Optional[str]) -> None:
    """Have steps counted on a device, that of the weight itself by default."""
    if not torch.cuda.is_initialized():  # all is on the processor
        return
    for weight in group["params"]:
        state = optimizer.state.get(weight, {})
        step, wanted = state.get("step"), torch.device(device) if device else weight.device
        if torch.is_tensor(step) and step.device != wanted:
            state["step"] = step.to(wanted)


LEVER = FusedOptimizer()
