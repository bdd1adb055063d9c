"""Live trials of the function that does Keras's batch: between the batches of the one and only fit or predict."""

import contextlib
import functools
import importlib
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, cast

from ... import clock, hardware
from ...frames import take_out
from ...lever import Lever
from ...lever import levers as all_levers
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...trials import TriedCalls, shielded
from ...variants import DEFAULT, Variant
from .. import arrays
from ..settings import Settings
from ..steps import Steps
from ..tensorflow.calls import COPY, as_arrays, bytes_of, tidy
from ..tensorflow.kinds import HARMLESS
from .kinds import PREDICT, TRAIN, KerasLever, Subject
from .losses import Losses
from .step import BatchStep
from .traced import copied, graphs, refuses, signature, states, step_of

EARNED = 2.0
"""Seconds that a function has worked before a model is converted for it without a trial: about what that takes."""
ENOUGH = 0.02
"""Part of a job's batches, where their number is known, whose time is enough if it is less than that."""


class BatchFunction(TriedCalls):
    """Stands in a model in the place of its train_function or predict_function."""

    def __init__(self, session: Session, subject: Subject, default: Any, make: Callable[..., Any]) -> None:
        self._session = session
        self._subject = subject
        self.default = default
        self._make = make
        self._name = "keras: {} of {}".format(subject.kind, type(subject.model).__name__)
        self._made: Dict[str, Callable[[Any], Any]] = {}
        self._seen: List[Any] = []
        """Variables of the graph, those among them that the model does not know."""
        self._signature: Any = None
        self._dtypes: List[Any] = []
        self._steps: Optional[Steps] = None
        self._search: Optional[Search] = None
        self._busy = threading.Lock()
        self._calls = 0
        self._spent = 0.0
        """Seconds of calls before anything but the program's own function was used."""
        self._first = 0.0
        """Seconds of the first call, which traces: what another way costs once is about as much."""
        self._over: Optional[str] = None
        self.seen: Set[Any] = set()
        self.losses = Losses(subject.model)
        self._settings = Settings(subject.keras)

    @property
    def tensorflow(self) -> Any:
        """Return the framework's module."""
        return self._subject.tensorflow

    def __getattr__(self, name: str) -> Any:
        """Return what the program looks for in its own function, such as ``get_concrete_function``."""
        if name == "default":
            raise AttributeError(name)
        return getattr(self.default, name)

    def pace(self) -> Optional[float]:
        """Return the seconds of a batch from now on, where trials know."""
        if self._over is not None:
            return None
        trials = self._steps or self._search
        return None if trials is None else trials.pace

    def permit(self, unchanged: bool) -> None:
        """Take note of whether the next batch has the weights of the last one for sure."""
        self._subject.unchanged = unchanged

    def stop(self, reason: str) -> None:
        """Use the program's own function from now on."""
        if self._over is None:
            self._over = reason
            self._session.record.add("no_trials", of=self._name, reason=reason)
            if self._search is not None:
                self._search.stop(reason)
            if self._steps is not None:
                self._steps.end(reason)
            self._made.clear()
            self.follow(DEFAULT)

    def follow(self, variant: Variant) -> None:
        self._settings.follow(variant)

    def __call__(self, data: Any) -> Any:
        over = self._over is not None or (self._steps is not None and self._steps.over)
        if over or not self._session.active or self._runs_eagerly():
            return self.default(data)
        if not self._busy.acquire(blocking=False):
            self.stop("it is called by several threads at once")
            return self.default(data)
        try:
            if self._subject.kind == TRAIN:
                return self._train(data)
            return shielded(self._predict, self.default, (data,), {}, self._fail)
        except BaseException as error:
            take_out(error)
            raise
        finally:
            self._subject.unchanged = False
            self._busy.release()

    def _runs_eagerly(self) -> bool:
        """Tell whether the program has had functions run eagerly since they were looked at."""
        return bool(self._steps or self._search) and bool(self._subject.tensorflow.config.functions_run_eagerly())

    def _fail(self, reason: str) -> None:
        self._session.record.fallback("the observation of keras", reason)
        self.stop(reason)

    # a step of fit

    def _train(self, data: Any) -> Any:
        self._calls += 1
        # The first call traces, and makes the weights of models that are built by their first batch.
        if self._calls == 1 or self._waits():
            return self._unit(self.default, data)
        if self._steps is None:
            search = self._session.guarded("the observation of keras", self._begin)(False)
            if search is None:
                self.stop("nothing can be tried on it")
                return self.default(data)
            self._steps = Steps(self._session, self._name, search, search.base, self.follow)
        result = self._steps.step(BatchStep(self, data))
        tidy(self._made, self._steps.wanted)
        return result

    def _unit(self, default: Callable[[Any], Any], data: Any) -> Any:
        start = clock.now()
        result = default(data)
        seconds = clock.now() - start
        self._first = self._first or seconds
        self._spent += seconds
        return result

    def _waits(self) -> bool:
        """Tell whether what was chosen before the run is not made yet: its batches may be over before that pays."""
        if self._search is not None or self._steps is not None or self._spent >= self._earned:
            return False
        names = self._session.config.levers
        return any(
            lever.expensive and not self._at_start(lever) for lever in all_levers("keras") if lever.name in names
        )

    @property
    def _earned(self) -> float:
        units = self._session.config.trials.units
        if units is None or self._calls < 3:
            return EARNED
        return min(EARNED, ENOUGH * units * (self._spent - self._first) / (self._calls - 2))

    # a batch of predict

    def _predict(self, default: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        data = args[0]
        tensorflow = self._subject.tensorflow
        self._calls += 1
        self._subject.turns += not self._subject.unchanged
        if self._signature is None:
            try:
                changed = copied(self._subject)
            except MemoryError as error:
                self.stop(str(error))
                return default(data)
            result = self._unit(default, data)
            if changed():
                self.stop("the model changes its state")
            self._signature = signature(tensorflow, data)
            self._dtypes = [leaf.dtype for leaf in tensorflow.nest.flatten(result)]
            return result
        if self._signature != signature(tensorflow, data) or self._waits():
            return self._unit(default, data)
        if self._search is None:
            self._search = self._begin(True)
            if self._search is None:
                self.stop("nothing can be tried on it")
                return default(data)
        result = self.do(self._search, self._search.next(), default, data)
        tidy(self._made, self._search.wanted)
        return result

    def ready(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        if variant.name not in self._made:
            start = clock.now()
            self.made(variant)
            search.prepared(clock.now() - start)
        function = self.made(variant)
        tensorflow = self._subject.tensorflow

        def call(data: Any) -> Any:
            result = function(data)
            leaves = [
                leaf if leaf.dtype == dtype else tensorflow.cast(leaf, dtype)
                for leaf, dtype in zip(tensorflow.nest.flatten(result), self._dtypes)
            ]
            return tensorflow.nest.pack_sequence_as(result, leaves)

        return call

    def compare(self, variant: Variant, default: Any, result: Any) -> Tuple[Optional[float], Optional[str]]:
        limit = arrays.limit(variant.levers, self._session.config.trials.tolerance)
        first, second = (as_arrays(self._subject.tensorflow, item) for item in (default, result))
        return arrays.difference(importlib.import_module("numpy"), first, second, limit)

    def now(self, search: Search) -> float:
        return clock.now()

    def taken(self, search: Search, seconds: float) -> float:
        """Return what a batch took, to which one comparison of weights in a call of predict adds its share."""
        (spent, usual), self._subject.comparing = self._subject.comparing, (0.0, 0.0)
        return seconds - spent + usual * self._subject.turns / self._calls

    # variants

    def _begin(self, checks: bool) -> Optional[Search]:
        start = clock.now()
        reason = self._session.hands_off or refuses(self._subject) or self._look(checks)
        if reason is not None:
            self.stop(reason)
            return None
        levers, chosen = self._candidates()
        if not levers and not chosen:
            return None
        seconds = self._first / hardware.load()  # the search counts with the load, which the first call has met
        trials, record = self._session.config.trials, self._session.record
        times = {lever.name: lever.seconds(self._subject) for lever in (*levers, *chosen)}
        costs = {name: value for name, value in times.items() if value is not None}
        search = search_for(self._name, levers, trials, record, checks=checks, seconds=seconds, costs=costs)
        self._session.follow(search)
        if chosen:
            search.fix(Variant(tuple(chosen)))
        if not checks:
            search.takes(COPY * bytes_of(self.variables()))
        search.ledger.charge(clock.now() - start)
        return search

    def _look(self, checks: bool) -> Optional[str]:
        """Look at what TensorFlow has made of the function, and return why nothing is tried on it."""
        if self._subject.kind == TRAIN and hasattr(self.default, "python_function"):
            # Keras before its EpochIterator of 3.7: a list's iterator would be traced anew for each batch.
            return "its function takes batches from TensorFlow's iterators only"
        traced = graphs(self.default)
        if not traced:
            return "what the function does cannot be seen"
        self._subject.random = any(graph.random for graph in traced)
        self._subject.graph = traced[0] if len(traced) == 1 else None
        self._subject.graphs, self._subject.step = traced, step_of(self.default)
        self._seen = [variable for graph in traced for variable in graph.variables]
        if any(graph.distributed for graph in traced):
            return "the program distributes its work"
        if not checks:
            foreign = any(graph.foreign for graph in traced)
            return "it may change what cannot be set back" if foreign else None
        effects = sorted(name for graph in traced for name in (graph.effects | graph.changing) - HARMLESS)
        return "it has effects that must not be repeated: {}".format(effects[0]) if effects else None

    def variables(self) -> List[Any]:
        """Return all variables that a step may change.

        The model and its optimizers know theirs, though the graph may not: some are written to only. The graph knows
        those of nested models' optimizers, of the program's own, and of Keras's generator for all.
        """
        own = [getattr(variable, "value", variable) for variable in states(self._subject)]
        return list({id(variable): variable for variable in (*own, *self._seen)}.values())

    def _candidates(self) -> Tuple[List[KerasLever], List[KerasLever]]:
        """Return the levers to try, and those that are on from the second call."""
        version = str(self._subject.keras.__version__)
        chosen = [lever for lever in all_levers("keras") if lever.name in self._session.config.levers]
        on = [lever for lever in chosen if self._at_start(lever)]

        def refuses(lever: KerasLever) -> Optional[str]:
            excluded = [other.name for other in on if lever.excludes(other) or lever.name == other.name]
            return "{} is on".format(excluded[0]) if excluded else lever.applies(self._subject)

        return self._session.chosen_or_offered("keras", version, lambda item: isinstance(item, KerasLever), refuses)

    def _at_start(self, lever: Lever) -> bool:
        return lever.at_start(self._subject.keras, self._session.settings(lever))

    def made(self, variant: Variant) -> Callable[[Any], Any]:
        """Return what does a batch in a variant's way."""
        if variant.name not in self._made:
            self._made[variant.name] = self._new([cast(KerasLever, lever) for lever in variant.levers])
        return self._made[variant.name]

    def _new(self, levers: List[KerasLever]) -> Callable[[Any], Any]:
        for lever in levers:
            other = lever.function(self._subject)
            if other is not None:
                return other
        return self._own(levers)

    def _own(self, levers: List[KerasLever]) -> Callable[[Any], Any]:
        """Return Keras's function, made and called in the levers' way."""
        subject, attribute = self._subject, self._subject.kind + "_function"
        values, name = subject.model.__dict__, subject.kind + "_step"
        builds = any(type(lever).making is not KerasLever.making for lever in levers)
        traces = any(lever.tracing(subject) is not None for lever in levers)
        step = _traced(subject, levers, getattr(subject.model, name)) if traces else None
        made = [] if traces else [lever.compiled(subject) for lever in levers]
        function = next((call for call in made if call is not None), self.default)
        if traces or (builds and function is self.default):
            own = values[attribute]
            with contextlib.ExitStack() as stack:
                for lever in levers:
                    stack.enter_context(lever.making(subject))
                stack.enter_context(_replaced(values, name, step))
                try:
                    self._make(subject.model, force=True)
                    function = values[attribute]
                finally:
                    values[attribute] = own

        def call(data: Any) -> Any:
            with contextlib.ExitStack() as stack:
                # Keras looks predict_step up when its function is traced, and train_step when it is made.
                stack.enter_context(_replaced(values, name, step if subject.kind == PREDICT else None))
                for lever in levers:
                    stack.enter_context(lever.calling())
                return function(data)

        return call


def _traced(subject: Subject, levers: List[KerasLever], step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for lever in levers:
                context = lever.tracing(subject)
                if context is not None:
                    stack.enter_context(context)
            return step(*args, **kwargs)

    return traced


@contextlib.contextmanager
def _replaced(values: Dict[str, Any], name: str, value: Any) -> Any:
    """Have an attribute of a model's own for a while; none with the value None."""
    if value is None:
        yield
        return
    missing = object()
    before = values.get(name, missing)
    values[name] = value
    try:
        yield
    finally:
        if before is missing:
            values.pop(name, None)
        else:
            values[name] = before
