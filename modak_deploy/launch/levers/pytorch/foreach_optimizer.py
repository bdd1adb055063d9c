"""The optimizer's step with one call for each operation over all weights."""

from typing import Optional

from ...frameworks.pytorch.kinds import TRAINING, Subject, TorchLever


class ForeachOptimizer(TorchLever):
    name = "pytorch-foreach-optimizer"
    summary = "the optimizer's step with one call for each operation over all weights"
    changes = "kernels"
    risk = 1.5
    ranks = True
    order = 16
    group = "optimizer"
    use = TRAINING

    def applies(self, subject: Subject) -> Optional[str]:
        groups = getattr(subject.optimizer, "param_groups", [])
        if subject.device == "cuda":
            return "it is the default on GPUs"
        for group in groups:
            if group.get("fused") or group.get("foreach") is not None or group.get("differentiable"):
                return "the program has chosen how the optimizer steps"
            if "foreach" not in group:
                return "not supported by the optimizer"
        return None if groups else "no optimizer found"

    def switch_training(self, subject: Subject, on: bool) -> None:
        for group in getattr(subject.optimizer, "param_groups", []):
            group["foreach"] = True if on else None


LEVER = ForeachOptimizer()
