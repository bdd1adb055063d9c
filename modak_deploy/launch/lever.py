"""What a lever declares, and the table of all levers.

A lever is one module below ``levers/<framework>/`` that defines ``LEVER``, an object of a class derived from the
framework's own kind of lever. It imports its framework in its functions only: the table can be read anywhere.
"""

import functools
import importlib
import importlib.util
import pkgutil
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import hardware, names, versions
from .frameworks import MODULES

EXACT = "exact"
"""The same arithmetic up to the order of additions."""
RELAXED = "relaxed"


class Lever:
    """One lever; the class attributes are its declaration."""

    name = ""
    framework = ""
    versions = ""
    """Versions of the framework, such as ``>=2.1,<3``."""
    summary = ""
    changes = ""
    """What it changes: ``threads``, ``kernels``, ``number format``, ``memory layout``, ``compilation``, ``input``,
    ``memory`` (how it is allocated)."""
    numerics = EXACT
    same_results = False
    """Whether it cannot change any result, so that there is nothing to compare."""
    lasting = False
    """Whether its effect stays when it is switched off: the default is not what it was before."""
    irreversible = False
    """Whether nothing undoes it, so that what has it is measured after what has not, and not in turns."""
    live = False
    """Whether it can be switched while the program runs; if not, it is on from the start or not at all."""
    at_calls = False
    """Whether, if chosen before the run, it is switched on at a call, or step, of an object that it applies to."""
    between_epochs = False
    """Whether it is tried between epochs and calls, and not between units: no unit takes longer or shorter with it."""
    within_units = False
    """Whether it is switched off after each unit, where units are calls: what the program does between them is its own.
    """
    own_threads = False
    """Whether it has threads of its own, beside those of the default that still wait for work after a unit."""
    expensive = False
    """Whether making it ready takes long, as compilation does."""
    keeps = False
    """Whether what it is made ready of is kept for later runs, where there is a folder for it."""
    background = False
    """Whether it can be made ready in a process of its own, while the program goes on, where a core is free."""
    ranks = False
    """Whether several ranks of a training can switch it together."""
    risk = 4.0
    """Times the default's time that a unit with it may plausibly take: what must be affordable before it is tried."""
    order = 50
    """Place in the order of trials: what promises most for least comes first."""
    group = ""
    """At most one lever of a group is on."""
    faster = ""
    """Name of a lever that does the same in a lower precision: where that one is offered, this one is not."""
    conflicts: Tuple[str, ...] = ()
    """Names of levers that cannot be on together with it."""
    cpu_features_any: Tuple[str, ...] = ()
    """At least one of these must be a feature of the processor, unless an accelerator does the arithmetic."""
    modules: Tuple[str, ...] = ()
    """Further Python modules that it needs."""

    def unusable(self, version: str) -> Optional[str]:
        """Return why it cannot be used here; None when nothing speaks against it."""
        if not versions.satisfies(version, self.versions):
            return "{} {} is not supported; it needs {}".format(self.framework, version, self.versions)
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return "the module {} is not installed".format(module)
        if self.cpu_features_any and not hardware.cpu_features().intersection(self.cpu_features_any):
            return "the processor has none of {}".format(", ".join(self.cpu_features_any))
        return None

    def at_start(self, module: Any, settings: Mapping[str, Any]) -> bool:
        """Tell whether, if chosen before the run, it is on from the framework's import, and not from a call only."""
        return not (self.live and self.at_calls)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Switch it on after the framework's import, for the whole run; ``module`` is the framework's."""
        raise NotImplementedError("{} cannot be on from the start".format(self.name))

    def switch(self, framework: Any, on: bool) -> None:
        """Switch a setting of the process between units; ``framework`` is the framework's module."""

    def restore(self, framework: Any) -> None:
        """Switch on what has been on, for the same object of the program, and was switched off for some units."""
        self.switch(framework, True)

    def taking(self) -> float:
        """Return about how many seconds it takes to switch it on, where that is no matter of a moment."""
        return 0.0

    def useless(self) -> Optional[str]:
        """Return why it would change nothing now, though it applies, where nothing undoes it; None where it would."""
        return None

    def again(self) -> None:
        """Take that one more unit is to be done while it is on, which has been on before."""

    def environment(self) -> Dict[str, str]:
        """Return variables that must be set before the framework is imported."""
        return {}

    def excludes(self, other: "Lever") -> bool:
        """Tell whether the two cannot be on together."""
        if other.name == self.name:
            return False
        same = bool(self.group) and self.group == other.group
        return same or other.name in self.conflicts or self.name in other.conflicts


@functools.lru_cache(maxsize=None)
def levers(framework: str) -> List[Lever]:
    """Return all levers of a framework, by name: every module of its folder has one."""
    table = []
    with names.library():
        package = importlib.import_module(".levers." + framework, __package__)
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module("." + info.name, package.__name__)
            if not info.name.startswith("_"):
                table.append(module.LEVER)
    return sorted(table, key=lambda lever: lever.name)


def all_levers() -> List[Lever]:
    """Return the levers of all frameworks."""
    return [lever for framework in MODULES for lever in levers(framework)]
