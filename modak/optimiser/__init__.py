"""The decision: candidates, feasibility, prediction, choice and its reason."""

from modak.optimiser.keeping import keep
from modak.optimiser.planner import make_plan
from modak.optimiser.targets import choose_target

__all__ = ["choose_target", "keep", "make_plan"]
