"""Sets of levers that are on together, and what may be done with a unit of work."""

from typing import NamedTuple, Tuple

from .lever import Lever

RUN = "run"
"""Do the unit with the variant."""
CHECK = "check"
"""Do the unit with the default and with the variant, and compare the results."""
PROBE = "probe"
"""Do the unit with the default, and the first rows of its arguments with the variant as well, and compare these."""


class Variant(NamedTuple):
    """Levers that are on together, in the order in which they were added."""

    levers: Tuple[Lever, ...] = ()

    @property
    def name(self) -> str:
        """Return its levers' names."""
        return " + ".join(lever.name for lever in self.levers) or "default"

    @property
    def expensive(self) -> bool:
        """Tell whether it takes long to make ready."""
        return any(lever.expensive for lever in self.levers)

    @property
    def own_threads(self) -> bool:
        """Tell whether it has threads of its own."""
        return any(lever.own_threads for lever in self.levers)

    @property
    def same_results(self) -> bool:
        """Tell whether its results cannot be other than the default's."""
        return all(lever.same_results for lever in self.levers)

    def plus(self, lever: Lever) -> "Variant":
        """Return the variant with one more lever, without those that cannot be on together with it."""
        return Variant((*(other for other in self.levers if not lever.excludes(other)), lever))

    def excludes(self, lever: Lever) -> bool:
        """Tell whether a lever would take the place of one that is on."""
        return any(lever.excludes(other) for other in self.levers)


class Action(NamedTuple):
    """What to do with the next unit."""

    kind: str
    variant: Variant


DEFAULT = Variant()
