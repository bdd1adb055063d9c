"""All that is known of the options: what was measured, and what the model says where that is not enough."""

import math
from typing import NamedTuple

from modak_deploy.model.plan import Basis
from modak_deploy.optimiser.carrying import Carry
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.modelled import Modelled
from modak_deploy.optimiser.options import Option
from modak_deploy.optimiser.scale import Scale
from modak_deploy.performance.statistics import Interval


class Comparison(NamedTuple):
    """How two options compare, and what that rests on."""

    ratio: Interval
    basis: Basis
    text: str
    """Where it is from: ``measured on .., which differs in ..`` or ``predicted by the model``."""


class Knowledge:
    """Measured beats model beats rule."""

    def __init__(
        self, evidence: Evidence, modelled: Modelled | None, scale: Scale | None = None, carry: Carry | None = None
    ) -> None:
        self.evidence = evidence
        self.modelled = modelled
        self.scale = scale
        self.carry = carry
        self._compared: dict[tuple[Option, Option], Comparison | None] = {}

    def compare(self, first: Option, other: Option) -> Comparison | None:
        """Return time of ``first`` over time of ``other``.

        A model that knows less than a carried-over measurement does not take its place.
        """
        pair = (first, other)
        if pair not in self._compared:
            self._compared[pair] = self._compare(first, other)
        return self._compared[pair]

    def _compare(self, first: Option, other: Option) -> Comparison | None:
        measured = self.evidence.compare(first, other)
        if measured is not None and measured.direct:
            basis: Basis = "trial" if measured.tried else "measurement"
            return Comparison(
                measured.ratio, basis, f"{'tried' if measured.tried else 'measured'} on {measured.location}"
            )
        modelled = self.modelled.ratio(first, other) if self.modelled else None
        if modelled is not None and (measured is None or _width(modelled) <= _width(measured.ratio)):
            return Comparison(modelled, "model", "predicted by the time model")
        if measured is None:
            return None
        return Comparison(measured.ratio, "rule", f"measured on {measured.location}{differing(measured.differences)}")


def _width(interval: Interval) -> float:
    return math.log(interval.high / interval.low)


def differing(differences: frozenset[str]) -> str:
    """Return the clause that names the differences; empty for none."""
    names = sorted(differences)
    if not names:
        return ""
    return f", which differs in {' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)}"
