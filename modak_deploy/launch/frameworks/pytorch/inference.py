"""Live trials between the calls of a module in evaluation mode."""

import collections
import functools
import weakref
from typing import Any, Callable, Dict, Optional, Set, Tuple

from ... import clock, parts, structures
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...variants import CHECK, DEFAULT, PROBE, Variant
from ..settings import Settings
from . import arguments, outputs, purity, replica, watch
from .background import Background
from .conversions import Conversions
from .exported import form_of_call
from .foreign import Foreign, Sizes
from .kinds import Subject, autocasts
from .offers import in_evaluation
from .runner import Runner, torch_levers
from .work import Work

SEARCHES = 3
"""Signatures of arguments that get trials of their own."""
FAMILIAR = 5
"""Calls after which a further signature gets them."""
CHANGES = 3
"""Changes of weights after which no copy is made any more."""
COPY = 1e-9
"""Seconds for each byte of the weights, which are copied, and summed up to see whether they change."""
LOAD = 0.2
"""Seconds in which a GPU's kernels of another number format or library are loaded: 0.1 to 0.5 on an H100 (CUDA 13)."""
COPY_ON_GPU = 2e-12
PURE_CALLS = 2
"""First calls that are observed: a module with state between calls is left alone."""
KINDS = 8
"""Kinds of arguments of which a call is observed: one with a list to fill may come later than one without."""


class Inference(Foreign):
    """Trials of one module. Each call's result reaches the program once, whichever variant it comes from."""

    def __init__(self, session: Session, torch: Any, root: Any, work: Work) -> None:
        self._session = session
        self._torch = torch
        self._root = weakref.ref(root)
        self._work = work
        self._label = type(root).__name__
        self._settings = Settings(torch)
        self._searches: Dict[Any, Search] = {}
        self._seen: Dict[Any, int] = collections.OrderedDict()
        self._runners: Dict[str, Runner] = {}
        self._forms: Dict[Any, outputs.Form] = {}
        """What results look like, by the variant and the signature of a call, or its kind for those of other sizes."""
        self._wholes: Dict[Any, outputs.Whole] = {}
        self._sizes = Sizes()
        self._signature: Any = None
        """That of the call which is being done."""
        self._kind: Any = None
        """The same without sizes."""
        self._given: Any = ()
        """Its arguments, where results are compared."""
        self._before: Optional[watch.State] = None
        """What it may change, before it, where a variant follows the default."""
        self._weights: Optional[watch.Weights] = None
        self._conversions = Conversions(session, torch, self._label)
        self._background = Background(session, torch, self._conversions)
        self._changes = 0
        self._observed = 0
        self._kinds: Set[Any] = set()
        self.over = False
        reason = replica.refusal(torch, root) or watch.hooked(torch, root) or session.hands_off
        parameters = [] if reason else root.parameters()
        self._device = next((tensor.device for tensor in parameters if tensor.device.type == "cuda"), None)
        self._cuda = self._device is not None
        self._default = torch.get_default_dtype()
        self._format = "" if reason else outputs.own_format(torch, root)
        if reason is not None:
            self.stop(reason)

    def stop(self, reason: str) -> None:
        """Use the module as it is from now on."""
        if self.over:
            return
        self.over = True
        if reason != self.unrepeatable:
            self._session.record.add("no_trials", of=self._label, reason=reason)
        for search in self._searches.values():
            search.stop(reason)
        self._settings.follow(DEFAULT)
        self._forget()

    @property
    def pace(self) -> Optional[float]:
        """Return the seconds of a call from now on, where all calls are of a kind and trials know."""
        searches = list(self._searches.values())
        return searches[0].pace if len(searches) == 1 and not self.over else None

    @property
    def rests(self) -> Optional[float]:
        """Return the seconds of a call, where nothing is tried for now and the module goes on as it is."""
        searches = list(self._searches.values())
        alone = len(searches) == 1 and not self.over
        return searches[0].ledger.default if alone and searches[0].rests and searches[0].best == DEFAULT else None

    def call(self, impl: Callable[..., Any], args: Any, kwargs: Any, passed: int = 0) -> Any:
        """Do a call of the program's, after some that were not looked at."""
        if passed and len(self._searches) == 1:
            for only in self._searches.values():
                only.rested(passed, only.ledger.default or 0.0)
        if self._session.hands_off or self._session.trained:
            self.stop(self._session.hands_off or "the program trains")
        try:
            signature = None if self.over or self._differs() else arguments.signature_of(self._torch, args, kwargs)
        except structures.Unsupported as error:
            self._leave("an argument cannot be looked into: {}".format(error))
            signature = None
        if signature is None:
            return impl(*args, **kwargs)
        self._signature, self._kind = signature, arguments.without_sizes(signature)
        kind = self._kind
        if self._observed < PURE_CALLS or (kind not in self._kinds and len(self._kinds) < KINDS):
            self._kinds.add(kind)
            return self._observe(impl, args, kwargs)
        search = self._search(signature, args, kwargs)
        self._background.follow(search)
        if search is None:
            return self._run_foreign(impl, args, kwargs, signature)
        return self._unit(search, impl, args, kwargs)

    def _differs(self) -> bool:
        if autocasts(self._torch):
            self.stop("the program uses autocast itself")
        elif self._torch.get_default_dtype() is not self._default:
            self.stop("the program has changed the number format of new tensors")
        return self.over

    def _observe(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do a call and see whether it changes anything but its result."""
        result, reason = purity.observed(self._torch, self._root(), impl, args, kwargs, first=not self._observed)
        self._observed += 1
        if reason is not None:
            self._leave(reason)
        return result

    def _search(self, signature: Any, args: Any, kwargs: Any) -> Optional[Search]:
        search = self._searches.get(signature)
        if search is not None:
            return search
        if len(self._seen) < 1000 or signature in self._seen:
            self._seen[signature] = self._seen.get(signature, 0) + 1
        familiar = not self._searches or self._seen.get(signature, 0) >= FAMILIAR
        if not familiar or len(self._searches) >= SEARCHES:
            return None
        root = self._root()
        subject = self._subject()
        offered, chosen = in_evaluation(self._session, subject)
        name = self._label if not self._searches else "{} {}".format(self._label, len(self._searches) + 1)
        both = (*offered, *torch_levers(chosen))
        held = self._conversions.held(root, both, form_of_call(self._torch, args, kwargs), self._watch)
        levers = self._session.without_unkept(name, offered, held)
        costs = {
            lever.name: lever.finishing(subject) if lever.name in held else lever.making(subject)
            for lever in both
            if lever.expensive
        }
        trials, record = self._session.config.trials, self._session.record
        part = arguments.part_of(self._torch, args, kwargs, self._cuda)
        search = search_for(name, levers, trials, record, part=part, costs=costs)
        size = sum(weight.numel() * weight.element_size() for weight in subject.parameters)
        search.takes(LOAD + COPY_ON_GPU * size if self._cuda else COPY * size)
        self._background.offer(search, subject, [lever for lever in levers if lever.name not in held])
        self._conversions.promise(search, [lever for lever in both if lever.name in held])
        self._session.follow(search)
        if chosen.levers:
            search.fix(chosen)
        self._searches[signature] = search
        return search

    def _subject(self) -> Subject:
        work = self._work
        return Subject(self._torch, self._root(), operations=work.operations, guide=bool(work.guide))

    # one call

    def _unit(self, search: Search, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        action = search.next()
        changes = self._changes
        if action.variant != DEFAULT and (not self._current_weights() or changes != self._changes):
            action = search.next()
        if search.to_make is not None:
            self._background.begin(search, self._root(), (args, kwargs), self._watch)
        self._before = watch.State(self._torch, self._root()) if action.kind in (CHECK, PROBE) else None
        self._given = (args, kwargs)
        try:
            result = self.do(search, action, lambda call: self._own(impl, *call), (args, kwargs))
        finally:
            before, self._before, self._given = self._before, None, ()
            self._settings.rest()
        if action.kind == PROBE and not self.over and before != watch.State(self._torch, self._root()):
            self.stop("a call with a part of the arguments changes the module's state")
        self._tidy()
        return result

    def _own(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do the program's own call, without what lies beside it where there is no memory for both."""
        try:
            return impl(*args, **kwargs)
        except self._torch.cuda.OutOfMemoryError:
            if not self._runners:
                raise
        self.stop("the program has no memory left beside it")
        self._torch.cuda.empty_cache()
        return impl(*args, **kwargs)

    def ready(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        self._only_if_pure(search)
        return self._formed(self._runner(search, variant), variant)

    def _only_if_pure(self, search: Search) -> None:
        """Raise Unsupported where the default's call, which comes first, has shown that the module is to be left alone.

        It may have become so since its first calls, as by a dropout that is switched on.
        """
        if self._before is None:
            return
        start = clock.now()
        reason = watch.hooked(self._torch, self._root())
        if reason is None and self._before != watch.State(self._torch, self._root()):
            reason = purity.CHANGES
        search.ledger.charge(2 * (clock.now() - start))  # as long as it took before the call
        if reason is not None:
            self.stop(reason)
            raise structures.Unsupported(reason)

    def _formed(self, runner: Runner, variant: Variant) -> Callable[[Any], Any]:
        form = self._forms.get((variant.name, self._signature)) or self._forms.get((variant.name, self._kind))
        return functools.partial(runner.same_form, form)

    def _keep_form(self, variant: Variant, default: Any, form: outputs.Form) -> None:
        """Keep the form of the default's result: for calls like this one, and for those of other sizes."""
        self._forms[variant.name, self._signature] = form
        earlier = self._forms.get((variant.name, self._kind))
        self._forms[variant.name, self._kind] = outputs.merged(self._torch, earlier, default, form)

    def compare(self, variant: Variant, default: Any, result: Any) -> Tuple[Optional[float], Optional[str]]:
        torch = self._torch
        wanted = outputs.form(torch, default)
        difference, reason = outputs.difference(torch, default, outputs.restore(torch, result, wanted))
        if outputs.returned(torch, default, self._given) != outputs.returned(torch, result, self._given):
            reason = reason or "the result holds other arguments"
        self._keep_form(variant, default, wanted)
        return difference, outputs.problem(difference, reason, self._limit(variant))

    def judged(self, search: Search, variant: Variant, sound: bool) -> bool:
        runner = self._runners.get(variant.name)
        if runner is None or not runner.judged(sound):
            return False
        del self._runners[variant.name]
        self._count_on_nothing()
        for other in self._searches.values():
            if other is not search:
                other.leave_what_is_lost()
        return True

    def _count_on_nothing(self) -> None:
        """Have trials count with what conversions cost, as those that were kept are of no use any more."""
        subject, kept = self._subject(), self._session.config.trials.kept
        for search, levers in self._conversions.broken():
            search.lost([lever.name for lever in levers if lever.name in kept])
            search.costs({lever.name: lever.making(subject) for lever in levers})
            self._background.offer(search, subject, [lever for lever in levers if lever.name not in kept])

    def cut(self, call: Any, part: parts.Part) -> Any:
        return arguments.cut(self._torch, call, part)

    def ready_part(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        self._only_if_pure(search)
        if any(lever.copies for lever in torch_levers(variant)):
            return self._formed(self._runner(search, variant), variant)
        return self._formed(Runner(self._torch, self._root(), variant, copy=True), variant)

    def compare_part(
        self, variant: Variant, default: Any, result: Any, part: parts.Part
    ) -> Tuple[Optional[float], Optional[str]]:
        torch = self._torch
        whole = outputs.whole(torch, default, self._given)
        first = outputs.rows(torch, default, part)
        difference, reason = outputs.difference(torch, first, outputs.restore(torch, result, whole.form))
        self._wholes[variant.name, self._signature] = whole
        self._keep_form(variant, default, whole.form)
        return difference, outputs.problem(difference, reason, self._limit(variant))

    def unsound(self, variant: Variant, result: Any) -> Optional[str]:
        wanted = self._wholes.get((variant.name, self._signature))
        if wanted is None:
            return "its results were compared with nothing"
        return outputs.unsound(self._torch, result, wanted, self._given)

    def warms(self, variant: Variant) -> bool:
        return variant.expensive or self._cuda

    def follow(self, variant: Variant) -> None:
        self._settings.follow(variant)

    def now(self, search: Search) -> float:
        if self._cuda and (self.checking or not search.settled):
            self._torch.cuda.synchronize(self._device)
        return clock.now()

    def taken(self, search: Search, seconds: float) -> float:
        # Once settled, nothing waits for the GPU: what was measured is the time in which its work was begun.
        return max(seconds, search.usual or 0.0) if self._cuda and search.settled else seconds

    def recover(self) -> None:
        self._tidy()
        if self._cuda:
            self._torch.cuda.empty_cache()

    # copies

    def _runner(self, search: Search, variant: Variant) -> Runner:
        start = clock.now()
        content = self._background.take(search, variant)
        runner = self._runners.get(variant.name)
        new = runner is None or content is not None
        if runner is None:
            root = self._root()
            if any(lever.copies for lever in torch_levers(variant)):
                replica.check(self._torch, root)
            self._watch()
            runner = Runner(self._torch, root, variant)
            runner.shelve(self._conversions)
            self._runners[variant.name] = runner
        if content is not None:
            runner.take(content)
        if new:
            search.prepared(clock.now() - start)
        return runner

    def _watch(self) -> None:
        if self._weights is None:
            self._weights = watch.Weights(self._torch, self._root())

    def _current_weights(self) -> bool:
        """Tell whether copies may be used; those of weights that have changed are thrown away first."""
        if self._weights is None:
            return True
        if self._weights.touches > 20:
            self.stop("the program reaches into the weights' memory between calls")
            return False
        if not self._weights.unchanged():
            self._changes += 1
            unseen = self._weights.unseen
            self._session.record.add("weights_changed", of=self._label, times=self._changes)
            self._forget()
            self._count_on_nothing()
            for search in self._searches.values():
                search.verify()
            reason = replica.refusal(self._torch, self._root()) or watch.hooked(self._torch, self._root())
            if unseen:
                reason = "weights changed without a trace; results since the last comparison may come from the old ones"
                self._session.record.fallback("a copy of " + self._label, reason)
            if reason is not None:
                self.stop(reason)
                return False
            if self._changes >= CHANGES:
                self.stop("the weights change between calls")
                return False
        return True

    def _forget(self) -> None:
        self._runners.clear()
        self._background.drop()
        self._conversions.forget()
        self._weights = None

    def _tidy(self) -> None:
        """Drop the copies of variants that lost."""
        wanted = set().union(*(search.wanted for search in self._searches.values()))
        lost = [name for name in self._runners if name not in wanted]
        for name in lost:
            del self._runners[name]
        if lost and self._cuda:  # the memory of a recorded call is given back only then
            self._torch.cuda.empty_cache()
        if not self._runners and all(search.settled for search in self._searches.values()) and self._background.idle:
            self._conversions.forget()
            self._weights = None

    def _limit(self, variant: Variant) -> float:
        stated = self._session.config.trials.tolerance
        formats = [self._format, *(lever.format for lever in torch_levers(variant))]
        return max(outputs.TOLERANCE[name] for name in formats) if stated is None else stated
