"""Trials with several ranks: the first one decides, and all switch at the same step.

The ranks of a program of torch.distributed share a store, by which they found each other. After each step, rank 0 puts
the variant of the next one there, and the others wait for it: their gradients have just met, so it is there at once.
When nothing is left to try, the last instruction says so, and no step asks any more.
"""

import contextlib
import datetime
import importlib
from typing import Any, NamedTuple, Optional

from ...session import Session
from ...variants import DEFAULT

SECONDS = 20.0
"""Time that a rank waits for the instruction of the first one, before it goes on by itself with the default."""
KEPT = 3
"""Steps after which an instruction is forgotten: gradients meet in each step, so that no rank is two behind."""
_LAST, _FURTHER = "last:", "then:"


class Instruction(NamedTuple):
    """What all ranks do from the next step on."""

    variant: str
    """Name of a variant: its levers' names."""
    last: bool
    """Whether nothing further will be said."""


class Ranks:
    """The way to the other ranks of the program, as one of them has it."""

    def __init__(self, store: Any, rank: int, name: str) -> None:
        """``name`` is that of the training, the same on all ranks."""
        self._store = store
        self._prefix = "modak/{}".format(name)
        self.first = rank == 0

    def tell(self, step: int, instruction: Instruction) -> bool:
        """Have all ranks do the steps after ``step`` in a variant's way; False where they cannot be told."""
        try:
            self._store.set(self._key(step), (_LAST if instruction.last else _FURTHER) + instruction.variant)
        except Exception:  # the store is gone, or its process: the ranks go on with what they have
            return False
        with contextlib.suppress(Exception):  # not every store can forget
            self._store.delete_key(self._key(step - KEPT))
        return True

    def ask(self, step: int) -> Instruction:
        """Return what the first rank says of the steps after ``step``; the default for good where it says nothing."""
        try:
            self._store.wait([self._key(step)], datetime.timedelta(seconds=SECONDS))
            text = bytes(self._store.get(self._key(step))).decode()
        except Exception:  # it has ended, or does another number of steps
            self._add("left", 1)
            return Instruction(DEFAULT.name, True)
        return Instruction(text[len(_LAST) :], text.startswith(_LAST))

    def complain(self, variant: str) -> None:
        """Tell the first rank that a variant failed here."""
        self._add("failed/" + variant, 1)

    def complained(self, variant: str) -> bool:
        """Tell, on the first rank, whether a variant has failed on another one."""
        return self._add("failed/" + variant, 0) > 0

    def left(self) -> bool:
        """Tell, on the first rank, whether another one goes on by itself."""
        return self._add("left", 0) > 0

    def _add(self, name: str, number: int) -> int:
        try:
            return int(self._store.add("{}/{}".format(self._prefix, name), number))
        except Exception:  # as in ``tell``
            return 0

    def _key(self, step: int) -> str:
        return "{}/{}".format(self._prefix, step)


def ranks_of(session: Session, name: str) -> Optional[Ranks]:
    """Return the way to the other ranks of the training ``name`` where trials may be made with them; else None.

    The store is the one of ``init_process_group`` (torch.distributed.distributed_c10d, PyTorch 2.0 to 2.13).
    """
    if session.ranks == 1 or not session.config.trials.wanted or session.config.trials.surveys:
        return None
    try:
        distributed = importlib.import_module("torch.distributed")
        if not distributed.is_available() or not distributed.is_initialized():
            return None
        if distributed.get_world_size() != session.ranks or distributed.get_rank() != session.rank:
            return None
        store = importlib.import_module("torch.distributed.distributed_c10d")._get_default_store()
    except Exception:  # another version keeps it elsewhere
        return None
    return Ranks(store, session.rank, name)
