"""Live trials of levers that nothing undoes: each has one, after units without it, while no process shares the memory.

What is measured without such a lever once it was on has it all the same. And what a fork has shared with this process
is not changed for both of them: a trial beside one would show no gain.
"""

from typing import Optional

from .lever import Lever
from .making import WAITS, MakingChoice
from .variants import Variant

ONCE = "it has been on, and stays: units without it can no longer be measured"

PLENTY = 40
"""Units left for each that a trial needs of a variant, from which what is made in the background can wait for it."""


class IrreversibleChoice(MakingChoice):
    """When what nothing undoes is tried, and what comes before it."""

    def _refusal(self, lever: Lever, variant: Variant) -> Optional[str]:
        reason = self._irreversible_refusal(lever) if lever.irreversible else None
        return super()._refusal(lever, variant) if reason is None else reason

    def _irreversible_refusal(self, lever: Lever) -> Optional[str]:
        return WAITS if self._is_copied else lever.useless()

    @property
    def _is_copied(self) -> bool:
        """Tell whether a fork, in which something is made ready, shares the process's memory, or is about to."""
        makings = [search._making for search in (self, *self.beside)]
        return any(making is not None and making.seconds is None for making in makings)

    @property
    def _hopeless(self) -> bool:
        waits = self._is_copied and any(lever.irreversible for lever in self._pending)
        return not waits and super()._hopeless

    def _make_next(self) -> None:
        """Begin what is made in the background, after what could not be tried beside it."""
        if self._next_to_make() is None or not self._begin_before():
            super()._make_next()

    def _begin_before(self) -> bool:
        if self.ledger.remaining < PLENTY * self._fewest:
            return False
        for lever in [lever for lever in self._pending if lever.irreversible]:
            variant = self.best.plus(lever)
            if variant.name not in self._tried and self._refusal(lever, variant) is None:
                self._pending.remove(lever)
                self._begin(variant, lever)
                return True
        return False

    def _measured_without(self, seconds: float) -> None:
        """Take a unit of the best variant; after enough of them, what nothing undoes is switched on."""
        self._rival.add(seconds)
        if not self._rival.complete():
            return
        if self._is_copied and self._lever is not None:
            self._defer(self._lever)
        else:
            self._turn, self._phase = False, self._irreversible or "measure"

    def _defer(self, lever: Lever) -> None:
        if self._irreversible and not self._turn:
            self._record.add("not_tried", of=self.name, lever=lever.name, reason=ONCE)
            self._back()
        else:
            super()._defer(lever)
