"""ONNX Runtime: runs of sessions are counted, and session options tried on second sessions of the same model."""

import functools
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, cast

from ... import clock, hardware, parts, structures
from ...frames import take_out
from ...handlers import let_through, suppressed
from ...progress import weakly
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...trials import TriedCalls, sentence, shielded
from ...variants import DEFAULT, RUN, Action, Variant
from .. import arrays
from ..counting import Pause
from . import nodes
from .given import Given
from .kinds import Form, OrtLever
from .sessions import OWN, Sessions, Source, described
from .work import features

LOOK = 100
"""Times what looking at a run takes, that the program's runs have to have taken before."""
PLAIN = 5
"""Times a run's time, that one without optimisation may take."""
ADDRESSES = 1 << 30
"""Bytes of addresses for stacks and heaps of a session's threads, and for the program, where they are limited."""
SPAN = 2e-3
"""Seconds of runs of which one is looked at: looking takes 0.02 ms, half of what a run of a tiny model takes."""
SESSIONS = 16
"""Sessions on which levers are tried; what makes more, as for each request, has none that runs for long."""
ON_PROCESSOR = frozenset(
    (
        "ACLExecutionProvider",
        "ArmNNExecutionProvider",
        "AzureExecutionProvider",
        "CPUExecutionProvider",
        "DnnlExecutionProvider",
        "OpenVINOExecutionProvider",
        "XnnpackExecutionProvider",
    )
)
"""Providers whose sessions take the memory of the machine alone, by their defaults."""


class Runs(TriedCalls):
    """Counts the runs of one session and tries variants of it."""

    def __init__(self, session: Session, sessions: Sessions, owner: Any, source: Optional[Source]) -> None:
        self._session = session
        self._sessions = sessions
        self._module = sessions.module
        self._source = source
        self._given = owner.get_providers()
        self._owner_providers = list(self._given)
        self._progress = session.counters.counter("inference: onnxruntime", "run")
        self._progress.pace = weakly(self._pace)  # second sessions go with the program's
        self._pause = Pause(SPAN)
        self._progress.pauses.append(self._pause)
        self._alone = True
        """Whether the program's own session does the runs that are not looked at."""
        self._usual = 0.0
        """Seconds of the last run that was looked at, of those in the way that is in use."""
        self._ways: Dict[str, Callable[..., Any]] = {}
        """What does a call in a variant's way, by its name: a second session, or what stands for one."""
        self._searches: Dict[Any, Search] = {}
        self._wholes: Dict[str, List[Any]] = {}
        self._form = Form((), {})
        self._busy = threading.Lock()
        self._seen = source is None or self._owner_providers != ["CPUExecutionProvider"]
        """Whether a run was looked at, or cannot be."""
        self._over: Optional[str] = None

    def _pace(self) -> Optional[float]:
        search = next(iter(self._searches.values()), None)
        return None if search is None or self._over is not None else search.pace

    def stop(self, reason: str) -> None:
        """Use the program's own session from now on."""
        if self._over is None:
            self._over = reason
            self._session.record.add("no_trials", of="onnxruntime", reason=reason)
            for search in self._searches.values():
                search.stop(reason)
            self._ways.clear()

    def __call__(self, owner: Any, names: Any, feed: Any, options: Any) -> Any:
        if self._alone and self._pause.left > 0:
            result = self._sessions.run(owner, names, feed, options)
            self._pause.left -= 1
            return result
        default = functools.partial(self._sessions.run, owner)
        if self._over is not None or not self._session.tries_or_chosen or options is not None:
            return self._counted(default, names, feed, options)
        # What is no list of names may be read once only, and what is no dict is the session's to refuse.
        if not isinstance(names, (list, tuple, type(None))) or not isinstance(feed, dict):
            return self._counted(default, names, feed, options)
        if owner.get_providers() is not self._given:
            self.stop("the session's providers have changed")
            return self._counted(default, names, feed, options)
        if not self._busy.acquire(blocking=False):
            self.stop("the session is run from several threads at once")
            return self._counted(default, names, feed, options)
        try:
            search = self._begun(owner, names, feed)
            if search is None:
                return self._counted(default, names, feed, options)
            return shielded(functools.partial(self._tried, search), default, (names, feed, None), {}, self._fail)
        finally:
            self._busy.release()

    def _begun(self, owner: Any, names: Any, feed: Any) -> Optional[Search]:
        try:
            return self._search(owner, names, feed)
        except Exception as error:  # a fault of the launcher's own
            let_through(error)
            self._fail(sentence(error))
            return None

    def _tried(self, search: Search, default: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        def own(call: Any) -> Any:
            return default(*call)

        if self._pause.left > 0:
            result = self._unseen(search, own, args)
            self._pause.left -= 1
            return result
        search.rested(self._pause.passed, self._usual)
        start, began, action = clock.now(), self.now(search), search.next()
        result = self.do(search, action, own, args)
        seconds = self.now(search) - began
        self._count(start, args)
        self._tidy()
        if search.rests and action == Action(RUN, search.best):
            self._alone, self._usual = search.best == DEFAULT, seconds
            self._pause.begin(seconds)
        return result

    def _unseen(self, search: Search, own: Callable[[Any], Any], call: Any) -> Any:
        """Do a run that is not looked at in the way that is in use."""
        try:
            return self._ways[search.best.name](*call)
        except Exception as error:  # whatever a lever makes of the program's session
            failure = error
        return self._instead(search, search.best, failure, own, call)

    def _fail(self, reason: str) -> None:
        self._session.record.fallback("the observation of onnxruntime", reason)
        self.stop(reason)

    def _counted(self, default: Callable[..., Any], *call: Any) -> Any:
        start = clock.now()
        result = default(*call)
        seconds = self._count(start, call)
        if all(search.rests and search.best == DEFAULT for search in self._searches.values()):
            self._alone = True
            self._pause.begin(seconds)
        return result

    def _count(self, start: float, call: Any) -> float:
        """Count a run that began at ``start``, and those before it that were not looked at; return what it took."""
        end = clock.now()
        seconds = end - start
        try:
            units = 1 + self._pause.take()
            self._progress.add(end, units * seconds, units)
            self._look(seconds, call)
            self._session.counters.tick(end)
        except Exception as error:  # the program's own run is done, and its result matters more
            self._session.give_up("onnxruntime", error)
        return seconds

    def _look(self, seconds: float, call: Any) -> None:
        """Look at what a run consists of, once that takes little of the program's time."""
        source = None if self._seen else self._source
        if source is not None and self._progress.seconds > LOOK * (source.seconds + PLAIN * seconds):
            self._seen = True
            with suppressed(), self._session.counters.aside():  # what cannot be described is not
                if self._no_room(hardware.resident_memory() or 0) is None:
                    self._progress.features = features(self._sessions, source, self._options(), *call[:2])

    def _search(self, owner: Any, names: Any, feed: Any) -> Optional[Search]:
        if any(callable(getattr(value, "shape", None)) for value in feed.values()):
            return None  # values of ONNX Runtime's own, which may lie on a device or belong to a session
        signature = (tuple(names or ()), tuple((key, _shape(value)) for key, value in feed.items()))
        if signature not in self._searches:
            if self._searches:
                return None
            if nodes.draws(cast(Source, self._source).model):
                self.stop("the model draws random numbers")
                return None
            levers, chosen = self._candidates()
            trials, record = self._session.config.trials, self._session.record
            both = (*levers, *cast(Tuple[OrtLever, ...], chosen.levers))
            costs = {lever.name: lever.making(self._size) for lever in both if lever.expensive}
            search = search_for("onnxruntime", levers, trials, record, part=_part(owner, feed), costs=costs)
            search.takes(cast(Source, self._source).seconds)  # a second session is loaded as the program's was
            self._form = Form(tuple(names or ()), {key: getattr(value, "shape", None) for key, value in feed.items()})
            self._session.follow(search)
            if chosen.levers:
                search.fix(chosen)
            self._searches[signature] = search
        return self._searches[signature]

    def _candidates(self) -> Tuple[List[OrtLever], Variant]:
        version = str(self._module.__version__)
        on_processor = ON_PROCESSOR.issuperset(self._owner_providers)

        def refuses(lever: OrtLever) -> Optional[str]:
            if not on_processor and lever.name not in self._session.config.levers:
                return "a second session would take the memory of its device"
            return lever.applies(self._module, self._options(), self._owner_providers)

        levers, chosen = self._session.chosen_or_offered("onnxruntime", version, lambda _: True, refuses)
        return levers, Variant(tuple(chosen))

    # sessions

    def ready(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        way = self._ways.get(variant.name)
        if way is None:
            reason = self._no_room()
            if reason is not None:
                raise MemoryError(reason)
            start = clock.now()
            way = self._ways[variant.name] = self._way(cast(Tuple[OrtLever, ...], variant.levers))
            search.prepared(clock.now() - start)
        made = way  # another thread may have stopped the trials, and thrown away what they made
        return lambda call: made(*call)

    def _way(self, levers: Tuple[OrtLever, ...]) -> Callable[..., Any]:
        """Return what does a call with levers on."""
        source, options, providers = cast(Source, self._source), self._options(), list(self._owner_providers)
        for lever in levers:
            providers = lever.change(self._module, options, providers)
        for lever in levers:
            runner = lever.runner(source.model, options, self._form)
            if runner is not None:
                return runner
        made = self._sessions.second(source, options, providers)
        return functools.partial(self._sessions.run, made)

    def _options(self) -> Any:
        return self._sessions.options(self._source)

    @property
    def _size(self) -> int:
        """Return the bytes of the model; if the process grew by far more than its file, weights are in others."""
        source = cast(Source, self._source)
        return source.size if source.memory < 4 * source.size else source.memory

    def _no_room(self, more: int = 0) -> Optional[str]:
        """Return why there is no memory for a second session, and ``more`` bytes for what it computes."""
        source = cast(Source, self._source)
        held = max(3 * source.size, source.memory + source.memory // 2)  # some is freed once it is loaded
        size = held + more + (0 if hardware.within_limits() is None else ADDRESSES)
        free = hardware.free_memory()
        if free is not None and size > free:
            return "a second session takes about {} MiB and {} MiB are free".format(size >> 20, free >> 20)
        return None

    def cut(self, call: Any, part: parts.Part) -> Any:
        names, feed, options = call
        cut = {
            key: value[: part.rows].copy() if parts.batched(value.shape, part) else value for key, value in feed.items()
        }
        return names, cut, options

    def compare_part(
        self, variant: Variant, default: Any, result: Any, part: parts.Part
    ) -> Tuple[Optional[float], Optional[str]]:
        if not all(parts.batched(getattr(value, "shape", ()), part) for value in default):
            return None, "an output has no row for each row of the inputs"
        self._wholes[variant.name] = [_shape(value) for value in default]
        return self.compare(variant, [value[: part.rows] for value in default], result)

    def unsound(self, variant: Variant, result: Any) -> Optional[str]:
        import numpy

        if [_shape(value) for value in result] != self._wholes.get(variant.name):
            return "a result has another shape or type"
        finite = all(bool(numpy.isfinite(value).all()) for value in result if value.dtype.kind in "fc")
        return None if finite else "the result holds values that are not finite"

    def _tidy(self) -> None:
        wanted = set().union(*(search.wanted for search in self._searches.values()))
        for name in [name for name in self._ways if name not in wanted]:
            del self._ways[name]

    def compare(self, variant: Variant, default: Any, result: Any) -> Tuple[Optional[float], Optional[str]]:
        import numpy

        limit = arrays.limit(variant.levers, self._session.config.trials.tolerance)
        return _difference(numpy, default, result, limit)


def _difference(numpy: Any, default: Any, result: Any, limit: float) -> Tuple[Optional[float], Optional[str]]:
    def is_leaf(value: Any) -> bool:
        return isinstance(value, (numpy.ndarray, numpy.generic))

    try:
        first, second = structures.leaves(default, is_leaf), structures.leaves(result, is_leaf)
    except structures.Unsupported as error:
        return None, str(error)
    return arrays.difference(numpy, first, second, limit)


def _part(owner: Any, feed: Any) -> Optional[parts.Part]:
    """Return the part of a run; None where the inputs have no batch in common, or the model is for one size of it."""
    values = list(feed.values())
    if not all(hasattr(value, "shape") and hasattr(value, "dtype") for value in values):
        return None
    part = parts.first(value.shape for value in values)
    if part is None:
        return None
    given = {argument.name: argument.shape for argument in owner.get_inputs()}
    names = [name for name, value in feed.items() if parts.batched(value.shape, part)]
    return None if any(isinstance(next(iter(given.get(name, ())), 0), int) for name in names) else part


def _shape(value: Any) -> Any:
    return (getattr(value, "shape", None), str(getattr(value, "dtype", type(value))))


def _resident() -> int:
    with suppressed():
        return hardware.resident_memory() or 0
    return 0


def install(session: Session, module: Any, version: str) -> None:
    """Follow the sessions that the program makes."""
    owner = module.InferenceSession
    sessions = Sessions(module)
    init, run = owner.__init__, owner.run
    followed = _Followed(session, sessions)
    options = Given(module.SessionOptions)

    @functools.wraps(init)
    def made(self: Any, path_or_bytes: Any, *args: Any, **kwargs: Any) -> None:
        start, before = clock.now(), _resident()
        try:
            init(self, path_or_bytes, *args, **kwargs)
        except BaseException as error:
            take_out(error)
            raise
        given = {**dict(zip(("sess_options", "providers", "provider_options"), args)), **kwargs}
        with suppressed():  # the program's session is made
            seconds, grown = clock.now() - start, max(0, _resident() - before)
            entries = options.entries(given.get("sess_options"))
            sessions.note(self, described(path_or_bytes, given, seconds, entries, grown))

    @functools.wraps(run)
    def counted(self: Any, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        if not session.active or OWN in vars(self):
            return run(self, output_names, input_feed, run_options)
        try:
            runs = followed.runs(self) or run
            return runs(self, output_names, input_feed, run_options)
        except BaseException as error:
            take_out(error)
            raise

    owner.__init__ = made
    owner.run = counted


class _Followed:
    """Gives each session of the program what counts its runs."""

    def __init__(self, session: Session, sessions: Sessions) -> None:
        self._session = session
        self._sessions = sessions
        self._count = 0
        self._others: Optional[Runs] = None
        """Counts the runs of all sessions beyond the first ones."""

    def runs(self, owner: Any) -> Optional[Runs]:
        """Return what counts a session's runs; None where that has failed."""
        held = self._sessions.runs(owner)
        if not held:
            held.append(self._session.guarded("the observation of onnxruntime", self._made)(owner))
        return cast(Optional[Runs], held[0])

    def _made(self, owner: Any) -> Runs:
        self._count += 1
        if self._count <= SESSIONS:
            runs = Runs(self._session, self._sessions, owner, self._sessions.source(owner))
            if self._sessions.source(owner) is None:
                runs.stop("the session's options cannot be repeated")
            return runs
        if self._others is None:
            self._others = Runs(self._session, self._sessions, owner, None)
            self._others.stop("the program makes more than {} sessions".format(SESSIONS))
        return self._others
