"""Levers of a module that are made ready in a process of their own, while the program goes on with its calls."""

import sys
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Sequence, Tuple, cast

from ... import background, clock, hardware
from ...search import Search
from ...session import Session
from ...variants import Variant
from . import replica
from .conversions import Conversions
from .exported import Content, Exported, form_of_call
from .kinds import Subject, TorchLever

SIZES = 8
"""Memory that it takes, in sizes of the weights: the exporter's, the model, its text, and what the program makes of it.
"""
LIBRARIES = 512 << 20
"""Bytes that the exporter's libraries and a graph take."""
WATCHED = 1.0
"""Seconds, at least, in which cores are watched before one of them counts as free: other processes may use it."""
IDLE = 0.5
"""Cores that were idle in that time, on the average."""
LATEST = 10.0
"""Times what it is expected to take, until it is given up."""
LEAST = 60.0
UNUSED = 60.0
"""Seconds without a call that could try it, for which something that is ready is kept in memory."""
HELD = 600.0
"""Seconds for which it is kept at all, where a trial of it is not affordable so far."""


class Made:
    """What is being made, or was, for one search: for the arguments of one call."""

    def __init__(self, search: Search, task: background.Task, form: Any) -> None:
        self.search = search
        self.task = task
        self.form = form
        self.ready = self.called = clock.now()
        """When it was ready, and when a call could have tried it for the last time."""

    def kept_in_vain(self, called: Optional[Search]) -> Optional[str]:
        """Return why it is kept no longer, with a call that belongs to a search."""
        if not self.search.keeps:
            return None
        now = clock.now()
        if called is self.search:
            self.called = now
        if now - self.called > UNUSED:
            return "no such call came for {:.0f} s after it was made ready in the background".format(UNUSED)
        if now - self.ready > HELD:
            return "a trial was not affordable for {:.0f} s after it was made ready in the background".format(HELD)
        return None


class Background:
    """What is made ready for one module, one lever at a time for each of its searches."""

    def __init__(self, session: Session, torch: Any, conversions: Optional[Conversions] = None) -> None:
        """``conversions`` are where what is made is kept for later runs."""
        self._session = session
        self._torch = torch
        self._conversions = conversions
        self._threads = torch.get_num_threads()
        """Those of the program, before a lever changes their number."""
        self._made: List[Made] = []
        self._watched: Optional[Tuple[float, Optional[Dict[int, float]]]] = None
        """Since when cores are watched, and how long each had been idle until then."""

    @property
    def idle(self) -> bool:
        """Tell whether nothing is being made, or was made and is to be used."""
        return not self._made

    def offer(self, search: Search, subject: Subject, levers: Sequence[TorchLever]) -> None:
        """Tell a search which of its levers can be made ready in the background."""
        able = [lever for lever in levers if lever.background and self._session.tries]
        if able and self._refusal(subject, able[0]) is None:
            search.takes_background({lever.name: lever.finishing(subject) for lever in able})

    def _refusal(self, subject: Subject, lever: TorchLever) -> Optional[str]:
        torch, distributed = self._torch, self._torch.distributed
        if self._session.ranks > 1 or (distributed.is_available() and distributed.is_initialized()):
            return "there are several ranks"
        if subject.device != "cpu" or torch.cuda.is_initialized():
            return "a GPU is in use, which a fork could not use"
        return background.refusal(self._threads, _memory(subject))

    def begin(self, search: Search, root: Any, call: Any, watch: Callable[[], None]) -> None:
        """Begin what a search wants to be made; ``watch`` has the weights watched from then on."""
        start = clock.now()
        free = self._leaves_core()
        if free is None:
            return  # the search wants it with the next call as well
        subject, (lever, alone) = Subject(self._torch, root), _making(cast(Variant, search.to_make))
        imported = any(module in sys.modules for module in lever.unforked)
        if not free or not alone or imported or self._refusal(subject, lever) is not None:
            search.not_begun(clock.now() - start)
            return
        watch()
        seconds = max(LEAST, LATEST * lever.making(subject))
        try:
            task = background.Task(self._work(root, lever, call), seconds, _memory(subject))
        except OSError:
            search.not_begun(clock.now() - start)
            return
        self._made.append(Made(search, task, form_of_call(self._torch, *call)))
        search.begun(clock.now() - start)

    def _work(self, root: Any, lever: TorchLever, call: Any) -> Callable[[BinaryIO], None]:
        torch = self._torch
        shelf = None if self._conversions is None else self._conversions.shelf(lever, root)  # of the program's threads

        def work(file: BinaryIO) -> None:
            torch.set_num_threads(1)  # the threads of the program's are not in this process
            module = replica.make(torch, root, lambda weight: lever.weight(torch, weight))
            data = cast(Exported, lever.compiled(torch, module)).content(*call)
            file.write(data)
            if shelf is not None:
                shelf.keep(form_of_call(torch, *call), data)

        return work

    def _leaves_core(self) -> Optional[bool]:
        """Tell whether a core is free; None where a later call tells, as cores are being watched or in use until then.

        Where nobody can tell how long cores are idle, those count that the program leaves.
        """
        now = clock.now()
        if self._watched is None:
            self._watched = (now, hardware.idle())
        since, before = self._watched
        if before is not None and now - since < WATCHED:
            return None
        self._watched = None
        if background.running() and background.busy(self._threads):  # with none under way, nothing would end that
            return None
        idle = hardware.idle_since(before) if before is not None else None
        return idle is None or idle >= IDLE * (now - since)

    def follow(self, called: Optional[Search]) -> None:
        """Tell searches once what they wait for is ready, and have given up what they keep; one of them is called."""
        for made in self._made[:]:
            search, task = made.search, made.task
            if search.waits and task.poll():
                if task.problem is None:
                    made.ready = made.called = clock.now()
                    search.made(task.seconds)
                else:
                    search.not_made(task.problem, task.seconds, task.undecided)
            reason = made.kept_in_vain(called)
            if reason is not None:
                search.not_made(reason, task.seconds, undecided=True)
            if search.making is None:
                self._drop(made)

    def take(self, search: Search, variant: Variant) -> Optional[Content]:
        """Return what was made for a variant that a search tries; it is there once."""
        lever, alone = _making(variant)
        if lever is None or not alone or search.waits or lever.name != search.making:
            return None
        for made in self._made:
            if made.search is search:
                content = Content(made.form, made.task.content())
                self._drop(made)
                return content
        return None

    def drop(self) -> None:
        """End all that is under way, and forget what was made."""
        for made in self._made[:]:
            self._drop(made)

    def _drop(self, made: Made) -> None:
        self._made = [other for other in self._made if other is not made]
        made.task.close()


def _memory(subject: Subject) -> int:
    """Return the bytes that it takes to make a module ready."""
    weights: int = sum(weight.numel() * weight.element_size() for weight in subject.parameters)
    return LIBRARIES + SIZES * weights


def _making(variant: Variant) -> Tuple[Any, bool]:
    """Return the lever of a variant that is made in the background, and whether no other one changes the weights."""
    levers: List[TorchLever] = [cast(TorchLever, lever) for lever in variant.levers]
    making = [lever for lever in levers if lever.background]
    return making[0] if making else None, [lever for lever in levers if lever.copies] == making[:1]
