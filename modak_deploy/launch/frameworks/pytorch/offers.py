"""Which levers are offered to a module in evaluation mode."""

from typing import List, Tuple

from ...session import Session
from ...variants import Variant
from . import sharing
from .kinds import TRAINING, Subject, TorchLever


def candidates(session: Session, subject: Subject) -> Tuple[List[TorchLever], Variant]:
    """Return the levers to try on a module in evaluation mode, and the variant that was chosen before the run."""
    shared = sharing.refusal(subject.torch, subject.module)
    levers, chosen = session.chosen_or_offered(
        "pytorch",
        str(subject.torch.__version__),
        lambda lever: isinstance(lever, TorchLever) and lever.use != TRAINING,
        lambda lever: lever.applies(subject) or (shared if lever.copies else None),
    )
    return levers, Variant(tuple(chosen))
