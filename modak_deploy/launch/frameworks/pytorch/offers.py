"""Which levers are offered to a module in evaluation mode, and to a training."""

from typing import Callable, List, Optional, Tuple

from ...lever import EXACT
from ...session import Session
from ...variants import Variant
from . import sharing
from .kinds import INFERENCE, TRAINING, Subject, TorchLever

Offer = Tuple[List[TorchLever], Variant]
"""The levers to try, and the variant that was chosen before the run."""


def in_evaluation(
    session: Session, subject: Subject, refuses: Callable[[TorchLever], Optional[str]] = lambda lever: None
) -> Offer:
    """Return what is offered to a module in evaluation mode; ``refuses`` says what else speaks against a lever."""
    shared = sharing.refusal(subject.torch, subject.module)

    def refusal(lever: TorchLever) -> Optional[str]:
        return lever.applies(subject) or (shared if lever.copies else None) or refuses(lever)

    return _offer(session, subject, TRAINING, refusal)


def in_training(session: Session, subject: Subject) -> Offer:
    """Return what is offered to a training."""
    levers, chosen = _offer(session, subject, INFERENCE, lambda lever: lever.applies(subject))
    # Other number formats gain most, and what layout and optimizer gain depends on them. What changes no result comes
    # before them: the losses by which they are judged tell more once a few steps are done. What takes a while once, as
    # moving memory does, comes after them, which would wait for what it loses, and before what gains less.
    return sorted(levers, key=_order), chosen


def _order(lever: TorchLever) -> Tuple[bool, ...]:
    first = lever.same_results and not lever.irreversible
    return lever.expensive, not first, lever.numerics == EXACT, not lever.irreversible


def _offer(session: Session, subject: Subject, other_use: str, refuses: Callable[[TorchLever], Optional[str]]) -> Offer:
    levers, chosen = session.chosen_or_offered(
        "pytorch",
        str(subject.torch.__version__),
        lambda lever: isinstance(lever, TorchLever) and lever.use != other_use,
        refuses,
    )
    return levers, Variant(tuple(chosen))
