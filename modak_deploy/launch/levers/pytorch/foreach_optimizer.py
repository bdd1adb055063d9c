"""The optimizer's step with one call for each operation over all weights."""

from typing import Any, Mapping, Optional

from ...frameworks.pytorch.kinds import OptimizerOption, Subject


class ForeachOptimizer(OptimizerOption):
    name = "pytorch-foreach-optimizer"
    summary = "the optimizer's step with one call for each operation over all weights"
    risk = 1.5
    order = 16
    option = "foreach"

    def applies(self, subject: Subject) -> Optional[str]:
        groups = getattr(subject.optimizer, "param_groups", [])
        if subject.device == "cuda":
            return "it is the default on GPUs"
        for group in groups:
            if not self.is_open(group):
                return "the program has chosen how the optimizer steps"
            if "foreach" not in group:
                return "not supported by the optimizer"
        return None if groups else "no optimizer found"

    def fits(self, torch: Any, optimizer: Any, group: Mapping[str, Any]) -> bool:
        # A learning rate that is a tensor is refused then (torch/optim/adam.py, 2.13).
        values = (value for name, value in group.items() if name != "params")
        numbers = (number for value in values for number in (value if isinstance(value, tuple) else (value,)))
        return bool(group.get("capturable")) or not any(map(torch.is_tensor, numbers))


LEVER = ForeachOptimizer()
