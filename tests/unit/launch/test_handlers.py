"""What a program's handlers for signals raise reaches the program, whatever is being tried meanwhile."""

import functools
import signal
import sys
import time

import pytest

from launch_parts import lever
from modak_deploy.launch import handlers
from modak_deploy.launch.frameworks.steps import Step, Steps
from modak_deploy.launch.survey import search_for
from modak_deploy.launch.trials import TriedCalls, shielded
from modak_deploy.launch.variants import CHECK, DEFAULT, PROBE, RUN, Action, Variant

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no timers")
ONE = Variant((lever("one"),))


class Late(Exception):
    """What handlers raise."""


def plain(number, frame):
    raise Late


def starred(*_):
    raise Late


def bound(text, number, frame):
    raise Late(text)


HANDLERS = {
    "a function": plain,
    "any arguments": starred,
    "partly bound": functools.partial(bound, "text"),
    "a lambda": lambda number, frame: plain(1, 2),
}


@pytest.fixture
def handled():
    """Return the function that has a handler called for SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield functools.partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def timer():
    """Return the function that sets the timer of SIGALRM."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    yield functools.partial(signal.setitimer, signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupted():
    signal.raise_signal(signal.SIGUSR1)


def failed(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("kind", sorted(HANDLERS))
def test_what_a_handler_raises_is_known(handled, kind):
    handled(HANDLERS[kind])
    error = failed(interrupted)
    assert handlers.raised(error) is error
    with pytest.raises(Late):
        handlers.let_through(error)


def test_what_a_library_makes_of_it_is_known_as_well(handled):
    def library():
        try:
            interrupted()
        except Late as error:
            raise RuntimeError("the export failed") from error

    handled(plain)
    assert isinstance(handlers.raised(failed(library)), Late)


def test_an_error_in_what_a_program_does_about_one_is_no_other_one(handled):
    def about():
        try:
            interrupted()
        except Late:
            raise KeyError("a lever's")  # noqa: B904

    handled(plain)
    assert handlers.raised(failed(about)) is None
    with handlers.suppressed():
        about()
    with pytest.raises(Late), handlers.suppressed():
        interrupted()


def test_a_timer_is_a_limit_unless_it_is_repeated(timer):
    assert not handlers.timed()
    timer(30)
    assert handlers.timed()
    timer(3000)
    assert not handlers.timed()
    timer(30, 30)
    assert not handlers.timed()


class Calls(TriedCalls):
    """A lever in whose calls a signal comes."""

    def ready(self, search, variant):
        return lambda call: interrupted()

    def cut(self, call, part):
        return call

    def recover(self):
        self.recovered = True


def trials(**options):
    memory = type("Memory", (), {"add": lambda *_, **__: None, "fallback": lambda *_: None})()
    from modak_deploy.launch.config import Trials

    return search_for("program", [lever("one")], Trials(mode="live", share=1.0), memory, **options)


@pytest.mark.parametrize("kind", [RUN, CHECK, PROBE])
def test_a_call_is_interrupted_with_a_lever_as_without_one(handled, kind):
    handled(plain)
    search, calls = trials(), Calls()
    while search.next().variant == DEFAULT:
        search.report(DEFAULT, 0.01)
    with pytest.raises(Late):
        shielded(lambda own, *_: calls.do(search, Action(kind, ONE), own, 1), lambda call: 2, (), {}, pytest.fail)
    assert calls.recovered and search.next().variant == DEFAULT, "it is not tried again"


def test_nothing_is_tried_while_a_timer_runs(timer):
    timer(30)
    assert Calls().do(trials(), Action(RUN, ONE), lambda call: call + 1, 1) == 2


class Interrupted(Step):
    """A step that a signal interrupts with a lever."""

    done = 0
    undone = 0

    def default(self):
        time.sleep(0.0001)
        Interrupted.done += 1
        return 1.0

    def built(self, variant):
        return False

    def keep(self):
        def undo():
            Interrupted.undone += 1

        return undo

    def do(self, variant):
        return interrupted()

    def loss(self, result):
        return result


def test_a_step_is_interrupted_with_a_lever_as_without_one(handled, session_of):
    handled(plain)
    search = trials(checks=False)
    steps = Steps(session_of(), "program", search)
    caught = 0
    for _ in range(400):
        try:
            steps.step(Interrupted())
        except Late:
            caught += 1
    assert (caught, Interrupted.done, Interrupted.undone) == (1, 399, 1)
