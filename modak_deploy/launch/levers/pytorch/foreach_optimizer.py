"""The optimizer's step with one call for each operation over all weights."""

from typing import Optional

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


LEVER = ForeachOptimizer()
