"""The decision: candidates, feasibility, prediction, choice and its reason."""

from modak.optimiser.keeping import keep
from modak.optimiser.planner import make_plan

__all__ = ["keep", "make_plan"]
