"""The optimizer's step as one kernel."""

from typing import Optional

from ...frameworks.pytorch.kinds import TRAINING, Subject, TorchLever

OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adagrad")


class FusedOptimizer(TorchLever):
    name = "pytorch-fused-optimizer"
    versions = ">=2.4"  # fused steps on processors came with 2.4
    summary = "the optimizer's step as one kernel for all weights"
    changes = "kernels"
    risk = 1.5
    ranks = True
    order = 15
    group = "optimizer"
    use = TRAINING

    def applies(self, subject: Subject) -> Optional[str]:
        optimizer = subject.optimizer
        if optimizer is None or type(optimizer).__name__ not in OPTIMIZERS:
            return "the optimizer {} has no fused step".format(type(optimizer).__name__)
        if not type(optimizer).__module__.startswith("torch.optim"):
            return "the optimizer is not PyTorch's own"
        for group in optimizer.param_groups:
            if group.get("fused") or group.get("foreach") or group.get("differentiable") or group.get("capturable"):
                return "the program has chosen how the optimizer steps"
            if "fused" not in group or not all(parameter.is_floating_point() for parameter in group["params"]):
                return "the optimizer's weights do not allow a fused step"
        return None

    def switch_training(self, subject: Subject, on: bool) -> None:
        optimizer = subject.optimizer
        for group in getattr(optimizer, "param_groups", []):
            group["fused"] = True if on else None
            for weight in group["params"]:
                step = getattr(optimizer, "state", {}).get(weight, {}).get("step")
                if subject.torch.is_tensor(step):  # fused steps count on the device, others on the processor
                    optimizer.state[weight]["step"] = step.to(weight.device if on else "cpu")  # type: ignore[union-attr]


LEVER = FusedOptimizer()
