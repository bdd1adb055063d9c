"""Live trials between the steps of an optimizer: levers are switched in place, and the loss is the check."""

import contextlib
import functools
import math
import weakref
from typing import Any, Callable, Optional

from ... import clock, structures
from ...handlers import let_through, raised, suppressed, timed
from ...progress import weakly
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...trials import SWITCHED, sentence
from ...variants import DEFAULT, Variant
from ..losses import AGAIN, Losses
from ..settings import Settings
from . import outputs
from .calls import Calls, features
from .formats import Formats
from .kinds import Subject, TorchLever, autocasts
from .offers import in_training
from .owners import owner
from .passes import LEFT_OUT, Passes, is_going_on, undonated
from .ranks import ranks_of
from .runner import torch_levers
from .together import Together, is_at_calls
from .undoing import keep


class Training(Together):
    """Trials of one optimizer and of the module whose weights it changes."""

    def __init__(
        self,
        session: Session,
        torch: Any,
        optimizer: Any,
        calls: Callable[[Any], Calls],
        passes: Optional[Passes] = None,
    ) -> None:
        """``passes`` follows the backward passes of the program, and has seen that of its first step."""
        self._session = session
        self._torch = torch
        self._optimizer = weakref.ref(optimizer, self._ended_with)
        self._passes = Passes(session, torch) if passes is None else passes
        module = owner(torch, optimizer)
        self._owner = (lambda: None) if module is None else weakref.ref(module)
        self._label = type(optimizer).__name__
        name = self._label if module is None else type(module).__name__
        self._progress = session.counters.counter("training: " + name, "step")
        if module is not None:
            self._progress.features = features(torch, module)
            if session.ranks > 1:
                self._progress.features["ranks"] = session.ranks
        self._progress.pace = weakly(self._pace)
        self._settings = Settings(torch)
        self._holds = False
        """Whether what is for steps may be on."""
        self._variant = DEFAULT
        self._last: Optional[float] = None
        self._evaluations = session.evaluations
        self._loss: Optional[Any] = None
        self._losses = Losses()
        self._again = 0
        self._compiled: Optional[Callable[..., Any]] = None
        self._cuda = any(p.is_cuda for group in optimizer.param_groups for p in group["params"])
        self._search: Optional[Search] = None
        self._base = DEFAULT
        """What losses are judged by: the default, or what was chosen before the run."""
        self._ranks = ranks_of(session, self._progress.name)
        self._follows = self._ranks is not None and not self._ranks.first
        """Whether this is a rank that does as the first one says."""
        self._ended = False
        """Whether the ranks have agreed on what they do to the end."""
        session.together = self._ranks is not None and self._ranks.first
        if session.ranks > 1 and session.config.trials.wanted and self._ranks is None:
            reason = "several ranks that torch.distributed does not join cannot switch at the same step"
            if session.config.trials.surveys:
                reason = "a survey is of one rank"
            session.record.add("no_trials", of=self._label, reason=reason)
        self._formats = Formats(torch, self._held)
        self._plain: Optional[str] = None
        """Why the module is called as it is until the next word: a lever failed in it."""
        self._gradients = []
        self._unmeasured = 0
        """Steps since the last one that was measured."""
        if self._follows and module is not None and self._refusal() is None:
            calls(self._held()).training = self.forward
        elif not self._follows and session.tries_or_chosen:
            self._begin(name, calls)

    def _begin(self, name: str, calls: Callable[[Any], Calls]) -> None:
        subject = self._subject(self._optimizer())
        reason = self._refusal()
        levers, chosen = ([], DEFAULT) if reason else in_training(self._session, subject)
        if self._session.ranks > 1:
            levers, chosen = self._alike(levers, False), Variant(tuple(self._alike(torch_levers(chosen), True)))
        if reason:
            self._session.record.add("no_trials", of=name, reason=reason)
        if not levers and not chosen.levers:
            return
        modules = len(subject.modules)
        trials, record = self._session.config.trials, self._session.record
        self._search = search_for(name, levers, trials, record, checks=False, seconds=10.0 + 0.3 * modules, turns=True)
        self._session.follow(self._search)
        if chosen.levers:
            self._search.fix(chosen)
            self._base = self._search.base
        if self._module is not None:
            intercepted = calls(self._held())
            intercepted.training = self.forward
            intercepted.work[True].into(self._progress.features)

    def _subject(self, optimizer: Any) -> Subject:
        differentiated = self._passes.differentiated()
        operations = self._passes.operations
        return Subject(self._torch, self._module, optimizer, operations, differentiated=differentiated)

    def _pace(self) -> Optional[float]:
        return None if self._search is None else self._search.pace

    def stop(self, reason: str) -> None:
        """Go back to the program's own way for good."""
        if self._search is not None:
            self._search.stop(reason)
            self._session.record.add("no_trials", of=self._label, reason=reason)
            self._switch(DEFAULT)
            self._search = None
        elif self._follows:
            self._switch(DEFAULT)
            self._follows = False

    # the forward call

    def forward(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do the outermost module's call."""
        self._set()  # what is for steps alone was off since the module changed its mode
        if self._compiled is not None and self._passes.twice:
            self._fail("the program differentiates gradients")
        if not self._at_calls or self._plain or (self._search is None and not self._follows):
            return self._formats.seen(impl(*args, **kwargs))
        if autocasts(self._torch):
            self.stop("the program uses autocast itself")
            return impl(*args, **kwargs)
        settled = self._ended if self._search is None else self._search.settled
        undo = keep(self._torch, self._held(), buffers=not settled)
        try:
            return self._forward(impl, args, kwargs)
        except Exception as error:  # whatever a lever makes of the program's module
            if is_going_on(self._torch):
                raise  # a backward pass calls it again, and checkpointing ends such a call by an exception
            reason, interruption = sentence(error), raised(error)
        self._hold(False)
        undo()
        if interruption is not None:
            raise interruption
        result = impl(*args, **kwargs)  # what fails here as well is the program's own
        if self._ranks is None and not self._ended:
            self._fail(reason)
        else:
            self._call_plainly(reason)
        return result

    @property
    def _at_calls(self) -> bool:
        """Tell whether the variant changes what a call of the module does."""
        return self._compiled is not None or any(map(is_at_calls, torch_levers(self._variant)))

    def _forward(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        is_leaf = outputs.is_tensor(self._torch)
        levers = torch_levers(self._variant)
        self._hold(True)
        for lever in levers:
            if type(lever).argument is not TorchLever.argument:
                change = functools.partial(lever.argument, self._torch)
                args, kwargs = structures.replace((args, kwargs), change, is_leaf)
        function = impl if self._compiled is None else self._compiled
        with contextlib.ExitStack() as stack:
            if self._compiled is not None:
                stack.enter_context(undonated())
            device = "cuda" if self._cuda else "cpu"
            contexts = [
                context for context in (lever.context(self._torch, device) for lever in levers) if context is not None
            ]
            check = self._formats.before(self._variant.name) if contexts else None
            for context in contexts:
                stack.enter_context(context)
            result = function(*args, **kwargs)
        if check is not None:
            check()
        if contexts:
            result = self._formats.single(result)
        return result

    # the steps

    def loss(self, tensor: Any) -> None:
        """Take what the program calls ``backward`` on."""
        if tensor.numel() == 1:
            self._loss = tensor.detach()

    def before_step(self, optimizer: Any) -> None:
        """Check what the step is about to do, and have the optimizer do it in the variant's way."""
        self._set()
        self._check(optimizer)
        for lever in torch_levers(self._variant):
            lever.optimizing(self._torch, optimizer, True)

    def _check(self, optimizer: Any) -> None:
        """Keep a step with a loss that is not finite from reaching the weights, where a lever may be the reason."""
        if self._passes.left_out:
            self._passes.left_out = False
            self._leave_out(optimizer)
            self._fail(LEFT_OUT, on=False)
            return
        if self._session.ranks > 1:
            self._keep_finite(optimizer)
            return
        if self._search is None or not self._variant.levers or self._loss is None:
            return
        if self._cuda and self._search.settled and self._progress.count % 50:
            return
        if math.isfinite(float(self._loss)) or self._finite(optimizer):
            return
        self._leave_out(optimizer)
        self._fail("the loss is not finite; this step was left out")

    def after_step(self) -> None:
        """Count a step, and choose the variant of the next."""
        self._hold(False)
        self._between()
        self._give_back()
        now = self._now()
        seconds = None if self._last is None else now - self._last
        self._last = now
        disturbed = self._session.evaluations != self._evaluations
        self._evaluations = self._session.evaluations
        if seconds is None:
            self._progress.add(now, 0.0)
            return
        self._progress.add(now, seconds)
        self._read_loss()
        self._session.counters.tick(now)
        ranks = self._ranks
        try:
            if self._search is not None and disturbed:
                self._search.ledger.ran += seconds
            elif self._search is not None:
                self._search.report(self._variant, seconds)
        finally:  # whatever goes wrong here, the other ranks wait for a word
            self._unmeasured = self._unmeasured + 1 if disturbed else 0
            if ranks is not None:
                self._together(ranks)
        if ranks is None and self._search is not None and not self._ended:
            self._follow(self._search)

    def _follow(self, search: Search) -> None:
        if self._variant.levers and not self._trajectory():
            self._fail("the loss rises")
            self._again = AGAIN
            self._losses.clear()
        if self._again and not search.settled:
            self._again -= 1
            wanted = self._base if search.best != DEFAULT else DEFAULT
        else:
            wanted = search.next().variant
        if wanted != self._variant and (search.settled or not timed()):
            self._switch(wanted)
            self._last = self._now()

    def _read_loss(self) -> None:
        if self._loss is None:
            return
        settled = self._search is None or self._search.settled
        if self._cuda and settled and self._progress.count % 50:
            return  # reading it would wait for the device
        value = float(self._loss)
        self._loss = None
        self._progress.loss = value
        # While a variant takes turns with the base, its steps are in the weights: the losses before it judge it.
        beside = self._search is not None and self._variant == self._base != self._search.current
        if not beside and (not settled or self._variant in (DEFAULT, self._base)):
            self._losses.add(self._variant.name, value)

    def _trajectory(self) -> bool:
        """Tell whether the losses with the variant go on from those without, up to their scatter."""
        if self._variant == self._base or self._variant.same_results:
            return True
        return not self._losses.rise(self._variant.name, self._base.name)

    # the levers

    def left(self, module: Any) -> None:
        """Take notice that the program changes a module's mode: a step that has begun may never end."""
        if module is self._module:
            self._hold(False)
        self._settings.rest()  # another one may be what is called now, as an average of the weights is

    @property
    def over(self) -> bool:
        """Tell whether the program has no use for the optimizer any more."""
        return self._optimizer() is None

    def _ended_with(self, _: Any) -> None:
        """Leave everything as it was before the optimizer, which is gone."""
        self._compiled = self._search = None  # what is compiled holds the module
        self._follows = False
        with suppressed():
            if self._session.active:
                if self._holds:
                    self._hold(False)
                self._settings.follow(DEFAULT)
        self._variant = DEFAULT

    def _hold(self, on: bool) -> None:
        """Switch what is on from the outermost call to the end of the step."""
        self._holds = on
        for lever in torch_levers(self._variant):
            lever.step(self._torch, on)

    def _between(self) -> None:
        """Switch off what is on within the optimizer's step."""
        for lever in torch_levers(self._variant):
            lever.optimizing(self._torch, self._optimizer(), False)

    def _set(self) -> None:
        """Have settings be the variant's within a step, of whose time it is no part: memory may be moved for one."""
        now = clock.now if self._cuda else self._now  # which waits for a GPU
        start = now()
        self._settings.follow(self._variant)
        seconds = now() - start
        if seconds > SWITCHED and self._last is not None and self._search is not None:
            self._last += seconds
            self._search.ledger.charge(seconds)

    def _switch(self, variant: Variant) -> None:
        self._hold(False)
        self._between()
        optimizer = self._optimizer()
        if optimizer is None:
            return
        subject = self._subject(optimizer)
        start = self._now()
        try:
            self._settings.follow(variant)
            old, new = torch_levers(self._variant), torch_levers(variant)
            for lever in [lever for lever in old if lever not in new]:
                lever.switch_training(subject, False)
            self._variant = variant
            self._formats.check(new, self._passes.operations)
            for lever in [lever for lever in new if lever not in old]:
                lever.switch_training(subject, True)
            compiling = [lever for lever in new if lever.expensive]
            self._compiled = self._compile(compiling[0], subject) if compiling else None
        except Exception as error:  # whatever a lever makes of the program's objects
            let_through(error)
            self._fail(sentence(error), on=False)
        if self._search is not None:
            self._search.prepared(self._now() - start)

    def _compile(self, lever: TorchLever, subject: Subject) -> Callable[..., Any]:
        reason = lever.applies(subject)
        if reason is not None:
            raise structures.Unsupported(reason)
        self._passes.compiled = True
        module: Any = subject.module
        call = module._call_impl

        def whole(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        # Dynamo begins with no code of PyTorch's own, such as Sequential's call, and compiles nothing then (2.13).
        return lever.compiled(self._torch, whole)

    def _fail(self, reason: str, on: bool = True) -> None:
        """Give up what fails: what is ``on``, in whosever turn that is, or what may not be any more, or not yet."""
        if self._search is None:
            return
        failed = self._variant
        self._search.failed(reason, failed if on and failed.levers else None)
        if self._search.best == failed:
            self._search.stop(reason)
        self._switch(self._search.best)

    def _now(self) -> float:
        if self._cuda and self._search is not None and not self._search.settled:
            self._torch.cuda.synchronize()
        return clock.now()
