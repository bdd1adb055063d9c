"""Keras: batches are counted, and levers tried between them; others are set when it is imported or a model compiled."""

import functools
import importlib
from typing import Any, List

from ...frames import cleaned
from ...lever import Lever
from ...session import Session
from ..tensorflow.stacks import leave_out_frames
from .batches import KINDS, Counting, Listener, hook
from .functions import BatchFunction
from .kinds import PREDICT, TRAIN, Subject, unfollowed
from .pipelines import follow

FUNCTIONS = 16
"""Functions that are followed; programs that compile a model again and again have none to speak of."""


def install(session: Session, keras: Any, version: str) -> None:
    """Count the batches of fit, evaluate and predict through the list of callbacks."""
    listeners: List[Listener] = [Counting(session)]
    for kind in KINDS:
        hook(keras.callbacks.CallbackList, kind, listeners)
    if session.tries and not session.config.trials.surveys:
        session.guarded("the pipelines of keras", _try_pipelines)(session, keras, version, listeners)
    session.guarded("the adapter of keras", _try)(session, keras, version)


def _try(session: Session, keras: Any, version: str) -> None:
    """Put trials, and levers chosen for functions, in the place of those that Keras makes for a model's batches."""
    if not session.tries:
        chosen = session.chosen("keras", version, lambda lever: not lever.at_start(keras, session.settings(lever)))
        if not chosen:
            return
    reason = unfollowed(keras)
    if reason is not None:
        session.record.add("no_trials", of="keras", reason=reason)
        return
    leave_out_frames()
    for kind in (TRAIN, PREDICT):
        _replace(session, keras, kind)


def _try_pipelines(session: Session, keras: Any, version: str, listeners: List[Listener]) -> None:
    """Try, between epochs and calls, how the pipelines of arrays end."""
    if keras.config.backend() != "tensorflow":
        return

    def kind(lever: Lever) -> bool:
        return lever.between_epochs and lever.name not in session.config.levers

    listeners += [follow(session, keras, lever) for lever in session.candidates("keras", version, kind)]


def _replace(session: Session, keras: Any, kind: str) -> None:
    name, attribute = "make_{}_function".format(kind), "{}_function".format(kind)
    make = getattr(keras.Model, name)
    followed = [0]

    @cleaned
    @functools.wraps(make)
    def made(self: Any, force: bool = False) -> Any:
        before = self.__dict__.get(attribute)
        if isinstance(before, BatchFunction):
            before.permit(False)
        result = make(self, force=force)
        function = self.__dict__.get(attribute)
        new = callable(function) and function is not before  # what the program has put there is its own
        if new and session.active and (followed[0] < FUNCTIONS or not session.tries):
            followed[0] += 1
            subject = Subject(keras, importlib.import_module("tensorflow"), self, kind)
            self.__dict__[attribute] = BatchFunction(session, subject, function, make)
        return result

    setattr(keras.Model, name, made)
