"""Weights and images of convolutions stored channels last."""

from typing import Any, Optional

from ...frameworks.pytorch.kinds import Subject, TorchLever


class ChannelsLast(TorchLever):
    name = "pytorch-channels-last"
    summary = "weights and images of convolutions in the memory order channels last"
    changes = "memory layout"
    risk = 1.5
    order = 13
    copies = True

    def applies(self, subject: Subject) -> Optional[str]:
        weights = [weight for weight in subject.parameters if weight.dim() == 4]
        if not weights:
            return "no weight has four dimensions"
        if all(weight.is_contiguous(memory_format=subject.torch.channels_last) for weight in weights):
            return "it is so already"
        if subject.optimizer is not None and len({weight.untyped_storage().data_ptr() for weight in weights}) < len(
            weights
        ):
            return "weights share memory"
        return None

    def weight(self, torch: Any, tensor: Any) -> Any:
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    def argument(self, torch: Any, tensor: Any) -> Any:
        # Not what has no gradient to pass on: an argument stays the program's own leaf.
        if tensor.dim() == 4 and tensor.is_floating_point():
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    def switch_training(self, subject: Subject, on: bool) -> None:
        torch = subject.torch
        layout = torch.channels_last if on else torch.contiguous_format
        state = getattr(subject.optimizer, "state", {})
        with torch.no_grad():
            for weight in subject.parameters:
                if weight.dim() != 4:
                    continue
                weight.data = weight.detach().contiguous(memory_format=layout)
                if weight.grad is not None:
                    weight.grad = weight.grad.contiguous(memory_format=layout)
                own = state.get(weight, {})
                for key, value in own.items():
                    if isinstance(value, torch.Tensor) and value.shape == weight.shape:
                        own[key] = value.contiguous(memory_format=layout)


LEVER = ChannelsLast()
