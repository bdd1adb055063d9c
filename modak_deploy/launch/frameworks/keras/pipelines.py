"""Live trial of how the pipelines that Keras makes of arrays end: between the epochs of fit, and calls of predict.

No result depends on it, and no batch takes longer or shorter: what is compared is the time in which a pipeline ends.
That is when the next one's first batch begins, or the call that made it returns, and nothing of the program's own runs
in that time. The lever is tried where it is a loss, and stays where the loss goes.
"""

import functools
import importlib
import statistics
import threading
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ... import clock
from ...frames import cleaned
from ...handlers import let_through
from ...lever import Lever
from ...session import Session
from ...trials import sentence
from ...variants import DEFAULT
from .batches import Listener, model_of
from .kinds import plain_options

CALLS = {"fit": "train", "evaluate": "test", "predict": "predict"}
FEWEST, MOST = 3, 6
"""Pipelines of a kind that are compared, of each way: fewer pairs tell the next Plan nothing."""
LEAST = 0.01
"""Seconds of a pipeline's end that are a loss: TensorFlow's thread first sleeps as long."""
SHARE = 0.02
"""Part of the time of pipelines from which their ends are a loss."""
SHORTER = 0.7
"""Part of the default's seconds that the ends may take for the lever to stay."""


class Ended(NamedTuple):
    """A pipeline that is no more."""

    batches: int
    seconds: float
    """What its batches took."""
    end: float
    """Seconds that the program waited until it was no more."""


class _Open:
    """A pipeline whose batches are being done."""

    def __init__(self, source: Any, name: str, plain: bool) -> None:
        self.source = source
        """What refers to the epochs that it is one of."""
        self.name = name
        self.plain = plain
        self.began = self.last = clock.now()
        self.batches = 0
        self.finished: Optional[float] = None
        """When the last callbacks of the call had been told that it ends."""


class Pipelines:
    """The trial of one process."""

    def __init__(self, session: Session, lever: Lever) -> None:
        self._session = session
        self._lever = lever
        self._open: Dict[str, _Open] = {}
        self._asked: Optional[Tuple[float, Any, bool]] = None
        """When a pipeline was last asked for, by what, and whether it is plain."""
        self._ended: Dict[Tuple[str, bool], List[Ended]] = {}
        self._first = set(CALLS.values())
        """Kinds whose next pipeline tells nothing: its batches are traced."""
        self._kind: Optional[str] = None
        """The kind that the lever is being tried on."""
        self._refused: Set[str] = set()
        """Kinds that it was tried on in vain."""
        self._thread = threading.get_ident()
        self.on = False
        """Whether new pipelines are plain."""
        self.over = False

    def _mine(self) -> bool:
        """Tell whether the trial goes on; it is of a single thread."""
        if not self.over and self._session.active and threading.get_ident() != self._thread:
            self.stop("models are used by several threads")
        return not self.over and self._session.active

    def stop(self, reason: str) -> None:
        """Leave pipelines as they are from now on; none was wrong."""
        if not self.over:
            self.over = True
            self._open.clear()
            if self._kind is not None:
                self._session.record.add("not_tried", lever=self._lever.name, reason=reason)

    def hear(self, tell: Callable[..., None], *what: Any) -> None:
        """Take note of something; what goes wrong with that ends the trial, and not the program."""
        try:
            tell(*what)
        except Exception as error:  # whatever a version of Keras makes of it
            let_through(error)
            self.on, self.over = False, True
            self._session.record.fallback("the pipelines of keras", sentence(error))

    def asked(self, source: Any) -> None:
        """Take note that a pipeline is made now, for epochs of ``source``."""
        if self._mine():
            self._asked = (clock.now(), weakref.ref(source), self.on)

    def begun(self, kind: str, model: Any) -> None:
        """Take note that a batch begins; the first one after a pipeline was made ends the one before it."""
        if self._asked is None or not self._mine():
            return
        (asked, source, plain), self._asked = self._asked, None
        before = self._open.get(kind)
        if before is not None and before.source() is not None and before.source() is source():
            self._close(kind, before, clock.now() - asked, coming=not plain)
        name = "keras: {} of {}".format(kind, type(model).__name__)
        self._open[kind] = _Open(source, name, plain)

    def ended(self, kind: str, batches: int) -> None:
        """Take note that batches have ended."""
        pipeline = self._open.get(kind)
        if pipeline is not None and self._mine():
            pipeline.last = clock.now()
            pipeline.batches += batches

    def finished(self, kind: str) -> None:
        """Take note that the callbacks of a call have been told of its end."""
        pipeline = self._open.get(kind)
        if pipeline is not None and self._mine():
            pipeline.finished = clock.now()

    def returned(self, kind: str) -> None:
        """Take note that a call of ``fit``, ``evaluate`` or ``predict`` has returned, and its pipeline is no more."""
        pipeline = self._open.pop(kind, None)
        if pipeline is not None and pipeline.finished is not None and self._mine():
            self._close(kind, pipeline, clock.now() - pipeline.finished)

    def _close(self, kind: str, pipeline: _Open, end: float, coming: bool = False) -> None:
        """Take a pipeline's end; ``coming`` is whether one more by default has been made already."""
        if kind in self._first or not pipeline.batches:
            self._first.discard(kind)
            return
        listed = self._ended.setdefault((kind, pipeline.plain), [])
        listed.append(Ended(pipeline.batches, pipeline.last - pipeline.began, end))
        del listed[:-MOST]
        if self._kind is None and kind not in self._refused and not pipeline.plain and _lose(listed, FEWEST - coming):
            self._kind, self.on = kind, True
            self._session.record.add("trying", of=pipeline.name, lever=self._lever.name, variant=self._lever.name)
        elif kind == self._kind and pipeline.plain and len(listed) >= FEWEST:
            self._decide(kind, pipeline.name, self._ended[kind, False], listed)

    def _decide(self, kind: str, name: str, default: List[Ended], plain: List[Ended]) -> None:
        """Keep the lever where pipelines end sooner; batches take what they took before."""
        usual = statistics.median(ended.seconds / ended.batches for ended in (*default, *plain))
        rival_times = [usual + end for end in _ends(default, len(plain))]
        times = [usual + end for end in _ends(plain, len(plain))]
        kept = _mean_end(plain) <= SHORTER * _mean_end(default)
        before, after = (usual + _ends(listed, 1)[0] for listed in (default, plain))
        self.on, self.over, self._kind = kept, kept, None
        self._refused.add(kind)
        # What takes less time a batch gains more by it: no other set is to be judged by these pairs.
        batches = next((search.best for search in self._session.searches if search.name == name), DEFAULT)
        took = "the end of a pipeline takes {:.3g} s, and {:.3g} s by default".format(
            _mean_end(plain), _mean_end(default)
        )
        result = "{}: {}".format("faster than the best so far" if kept else "not faster than default", took)
        values: Dict[str, Any] = {"times": times, "rival_times": rival_times, "seconds": after, "default": before}
        values.update(units=sum(ended.batches for ended in plain), gain=before / after, one_time=0.0)
        self._session.record.add(
            "trial",
            of=name,
            variant=batches.plus(self._lever).name,
            rival=batches.name,
            result=result,
            kept=kept,
            failed=False,
            **values,
        )
        went_on = {"variant": self._lever.name, "gain": before / after} if kept else {"variant": "default"}
        self._session.record.add("settled", of="the pipelines of Keras", reason=took, **went_on)


class PipelineListener(Listener):
    """Tells the trial of batches; what goes wrong with it does not reach the program."""

    def __init__(self, trial: Pipelines) -> None:
        self._trial = trial

    def begins(self, kind: str, callbacks: Any) -> None:
        self._trial.hear(self._trial.begun, kind, model_of(callbacks))

    def ended(self, kind: str, callbacks: Any, batches: int, logs: Any) -> None:
        self._trial.hear(self._trial.ended, kind, batches)

    def finished(self, kind: str) -> None:
        self._trial.hear(self._trial.finished, kind)


def _ends(listed: List[Ended], count: int) -> List[float]:
    """Return the ends' seconds a batch of so many groups of pipelines, one after another.

    A few pipelines may wait for long and all others hardly. The next Plan compares pairs, and is to see none left out.
    """
    bounds = [len(listed) * number // count for number in range(count + 1)]
    groups = [listed[first:last] for first, last in zip(bounds, bounds[1:])]
    return [sum(ended.end for ended in group) / sum(ended.batches for ended in group) for group in groups]


def _mean_end(listed: List[Ended]) -> float:
    return statistics.mean(ended.end for ended in listed)


def _lose(listed: List[Ended], fewest: int) -> bool:
    """Tell whether the ends of pipelines, of so many at least, are a loss that is worth a trial."""
    ends = sum(ended.end for ended in listed)
    enough = len(listed) >= fewest and ends >= LEAST * len(listed)
    return enough and ends >= SHARE * (ends + sum(ended.seconds for ended in listed))


def follow(session: Session, keras: Any, lever: Lever) -> Listener:
    """Have the pipelines of Keras's epochs follow the trial, and return what is to be told of batches."""
    trainer = importlib.import_module("keras.src.backend.tensorflow.trainer")
    adapters = importlib.import_module("keras.src.trainers.data_adapters.array_data_adapter")
    dataset_of = trainer.TFEpochIterator._get_iterator
    pipelines = Pipelines(session, lever)
    options = plain_options()
    dataset_kind = importlib.import_module("tensorflow").data.Dataset

    @cleaned
    @functools.wraps(dataset_of)
    def get_iterator(self: Any) -> Any:
        dataset = dataset_of(self)
        if not isinstance(self.data_adapter, adapters.ArrayDataAdapter) or not isinstance(dataset, dataset_kind):
            return dataset
        pipelines.hear(pipelines.asked, self)
        if not pipelines.on:
            return dataset
        plain = self.__dict__.get("_modak_plain")
        if plain is None:
            plain = self.__dict__["_modak_plain"] = dataset.with_options(options)
        return plain

    trainer.TFEpochIterator._get_iterator = get_iterator
    for name, kind in CALLS.items():
        setattr(keras.Model, name, _returning(pipelines, kind, getattr(keras.Model, name)))
    return PipelineListener(pipelines)


def _returning(pipelines: Pipelines, kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @cleaned
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        pipelines.hear(pipelines.returned, kind)
        return result

    return call
