"""Live trials of levers that are made ready in the background: the program goes on with the best variant meanwhile."""

from typing import Collection, Iterator, Mapping, Optional, Tuple

from .choice import CHOSEN, FASTEST, TRYING, WAITED_FOR, Choice
from .lever import Lever
from .variants import DEFAULT, Variant

WAITS = WAITED_FOR + "what was made ready in the background"
ENDED = "the program ended while it was made ready in the background"
LOOK = 0.02
"""Seconds of units after which something to try is looked for once more: that takes some 0.2 ms."""


class Making:
    """A lever that is being made ready in the background, or was and is still to be tried."""

    def __init__(self, lever: Lever, variant: Variant) -> None:
        self.lever = lever
        self.variant = variant
        self.begun = False
        self.seconds: Optional[float] = None
        """What it took, once it is ready."""


class MakingChoice(Choice):
    """What is made ready next, and when it is tried.

    How something is made in the background is the adapter's: it begins when ``to_make`` says what, and tells by
    ``begun`` and ``made``. One lever is made at a time; what is cheap goes on being tried meanwhile.
    """

    _making: Optional[Making] = None
    _made_beside: Optional[Making] = None
    """How what is being tried was made, where that was in the background."""
    _look_at = 0.0
    """Seconds of units at which something to try is looked for again, where there was nothing."""

    def takes_background(self, seconds: Mapping[str, float]) -> None:
        """Take the levers that can be made ready in the background, with the seconds that the program loses then."""
        self._prospects.background.update(seconds)

    def costs(self, seconds: Mapping[str, float]) -> None:
        """Take what expensive levers cost now, as what was made of them before is of no use any more."""
        self._prospects.costs.update(seconds)

    def lost(self, names: Collection[str]) -> None:
        """Take the levers that are tried no more, as what was kept for them cannot be used: they are not made anew."""
        self._prospects.lost.update(names)

    def leave_what_is_lost(self) -> None:
        """Go back from a winner with a lever that is lost, where what was made of it is gone."""
        if any(lever.name in self._prospects.lost for lever in self.best.levers):
            self._leave_what_is_dear()

    @property
    def to_make(self) -> Optional[Variant]:
        """Return the variant that is to be made ready from now on."""
        making = self._making
        return making.variant if making is not None and not making.begun else None

    @property
    def making(self) -> Optional[str]:
        """Return the name of the lever that is made ready in the background, or was and is still to be tried."""
        making = self._making or self._made_beside
        return None if making is None else making.lever.name

    @property
    def waits(self) -> bool:
        """Tell whether something is being made ready in the background."""
        return self._making is not None and self._making.begun and self._making.seconds is None

    @property
    def keeps(self) -> bool:
        """Tell whether something is ready that is still to be tried."""
        return self._making is not None and self._making.seconds is not None

    @property
    def rests(self) -> bool:
        """Tell whether the next units are the best variant's, and neither measured nor compared."""
        return self._phase in ("choose", "settled") and self._making is None and not self.partly(self.best)

    def rested(self, units: int, seconds: float) -> None:
        """Book units of the best variant that were not looked at, of so many seconds each."""
        self.ledger.unseen(units, seconds, self.best == DEFAULT)

    def begun(self, seconds: float) -> None:
        """Note that the adapter has begun, which took the program so long."""
        if self._making is not None:
            self._making.begun = True
            self.ledger.charge(seconds)
            names = {"lever": self._making.lever.name, "variant": self._making.variant.name}
            self._record.add("making", of=self.name, charged=seconds, **names)

    def not_begun(self, seconds: float = 0.0) -> None:
        """Have the lever made ready between two units, as it cannot be in the background after all.

        ``seconds`` is what it took the program to see that.
        """
        if self._making is not None:
            self.ledger.charge(seconds)
            self._prospects.background.pop(self._making.lever.name, None)
            self._pending.append(self._making.lever)
            self._making = None

    def made(self, seconds: float) -> None:
        """Note that it is ready, after so many seconds in the background."""
        if self._making is not None:
            self._making.seconds = seconds
            self._record.add("made", of=self.name, variant=self._making.variant.name, seconds=seconds)

    def not_made(self, reason: str, seconds: float, undecided: bool = False) -> None:
        """Give up what could not be made ready, or kept; ``undecided`` is whether another job may try it."""
        making, self._making = self._making, None
        if making is None:
            return
        name = making.variant.name
        self._tried.add(name)
        if undecided:
            self._record.add("not_tried", of=self.name, lever=making.lever.name, reason=reason)
            return
        self._record.fallback(name, reason)
        values = {"kept": False, "failed": True, "default": self._default, "one_time": seconds, "background": seconds}
        self._record.add("trial", of=self.name, variant=name, result=reason, lost=self.ledger.lost, **values)

    def _book(self, variant: Variant, seconds: float) -> float:
        """Book a unit; what it takes longer than usual while something is made counts as lost.

        Whether a neighbour is the reason, or memory that is copied since the fork, or a core that was not free after
        all, cannot be told apart.
        """
        usual = self.ledger.default if variant == DEFAULT else self.usual if variant == self.best else None
        alone = super()._book(variant, seconds)
        if usual is not None and self.waits:
            self.ledger.lose(max(0.0, seconds - usual))
        return alone

    def _choose(self) -> None:
        if self.ledger.ran < self._look_at or self._try_made():
            return
        if self._making is None:
            self._make_next()
        if self._phase == "choose":
            super()._choose()
        if self._phase == "choose":
            self._look_at = self.ledger.ran + LOOK

    def _make_next(self) -> None:
        lever = self._next_to_make()
        if lever is not None:
            self._pending.remove(lever)
            self._refused.pop(lever.name, None)
            self._making = Making(lever, self.best.plus(lever))

    def _next_to_make(self) -> Optional[Lever]:
        for lever in self._pending:
            variant = self.best.plus(lever)
            if lever.name not in self._prospects.background or lever in self.best.levers or variant.name in self._tried:
                continue
            if self._background_refusal(lever) is None:
                return lever
        return None

    def _background_refusal(self, lever: Lever, ready: bool = False) -> Optional[str]:
        improved, best, replaces = bool(self.best.levers), self._usually, self._replaces(lever)
        return self._prospects.background_refusal(lever, self._default, best, improved, ready, replaces)

    def _refusal(self, lever: Lever, variant: Variant) -> Optional[str]:
        if lever.name not in self._prospects.background:
            return super()._refusal(lever, variant)
        return WAITS if self._making is not None else self._background_refusal(lever)

    def _coming(self) -> Iterator[Tuple[Lever, bool]]:
        if self._making is not None:
            yield self._making.lever, self._making.seconds is not None
        yield from super()._coming()

    def _try_made(self) -> bool:
        """Try what is ready, where that is affordable now; return whether that was begun."""
        making = self._making
        if making is None or making.seconds is None:
            return False
        refusal = self._background_refusal(making.lever, ready=True)
        if refusal is not None:
            self._refused[making.lever.name] = refusal
            return False
        self._making, self._made_beside = None, making
        self._begin(self.best.plus(making.lever), making.lever)
        self._one_time = making.seconds
        return True

    def _awaited(self) -> bool:
        """Tell whether the end of the trials waits for something; give up what is ready and will never be tried."""
        making = self._making
        if making is None:
            return False
        if making.seconds is None:
            return True
        if self._hopeless:
            self._making = None
            self._pending.append(making.lever)
            self._not_tried(making.lever)
        return False

    def _remake(self) -> None:
        """Have what was made in the background made anew: it was made of weights that have changed."""
        self._leave_what_is_dear()
        if self._phase in TRYING and not self._fixed and self._lever and self._lever.name in self._prospects.lost:
            self._defer(self._lever)
        if self._making is not None:
            self._making = Making(self._making.lever, self.best.plus(self._making.lever))
        elif self._made_beside is not None and self._phase in ("check", "measure"):
            lever = self._made_beside.lever
            self._tried.discard(self._current.name)
            self._pending.insert(0, lever)
            self._record.add("deferred", of=self.name, lever=lever.name, variant=self._current.name)
            self._back()

    def _leave_what_is_dear(self) -> None:
        """Go back from a winner that the job cannot afford to make anew between two units, and have it made again."""
        best, default = self.best, self.ledger.default or 0.0
        unmade = {*self._prospects.background, *self._prospects.lost}
        dear = [lever for lever in best.levers if lever.name in unmade and lever not in self._base.levers]
        if not dear or all(self._prospects.refusal(lever, best, default, default, True) is None for lever in dear):
            return
        if self._phase in TRYING and self._lever is not None:
            self._defer(self._lever)
        elif self._phase == "final":  # what was measured before it
            self._estimates[self._beginning.name] = self._estimates["first"]
        rest = Variant(tuple(lever for lever in best.levers if lever not in dear))
        measured = self._estimates.get(rest.name)
        stays = measured is not None and measured.count and set(self._base.levers) <= set(rest.levers)
        self.best = self._sound = rest if stays else self._base
        self._reason = None if self.best == DEFAULT else CHOSEN if self.best == self._base else FASTEST
        self._rival = self._estimates[self.best.name]
        self._drift_measured, self._settled_as = False, None
        for lever in reversed(dear):
            self._tried.difference_update((best.name, self.best.plus(lever).name))
            self._pending.insert(0, lever)
            self._record.add("deferred", of=self.name, lever=lever.name, variant=best.name)
        self._back()

    def _finish(self, result: str, failed: bool = False, **others: float) -> None:
        """Note how a trial ended, and how what was tried was made."""
        making = self._made_beside
        if making is not None and making.seconds is not None:
            others["background"] = making.seconds
        super()._finish(result, failed, **others)

    def _back(self) -> None:
        self._made_beside = None
        super()._back()

    def end(self) -> None:
        """Tell what was not tried: the program ends."""
        making, self._making = self._making, None
        if making is not None:
            self._pending.append(making.lever)
            if making.seconds is None:
                self._refused[making.lever.name] = ENDED
        super().end()
