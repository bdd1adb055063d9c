"""The decision: candidates, feasibility, prediction, choice and its reason.

What decides is loaded when it is first asked for: ``changes`` is used by those who only submit, and does without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modak_deploy.optimiser.keeping import keep
    from modak_deploy.optimiser.planner import make_plan
    from modak_deploy.optimiser.replanning import replan
    from modak_deploy.optimiser.targets import choose_target

__all__ = ["choose_target", "keep", "make_plan", "replan"]
_MODULES = {"choose_target": "targets", "keep": "keeping", "make_plan": "planner", "replan": "replanning"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
