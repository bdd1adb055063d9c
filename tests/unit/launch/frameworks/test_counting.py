"""Calls are counted; of those that take no longer than counting them, one of many is looked at."""

import signal
import sys

import pytest

from modak_deploy.launch.frameworks import counting
from modak_deploy.launch.frameworks.counting import MOST, CallCounter, Pause
from modak_deploy.launch.progress import HEAD


class Called:
    """A function whose calls take a given time; one that is paused calls it without counting."""

    def __init__(self, session, monkeypatch, seconds):
        self.now, self.seconds, self.calls = 0.0, seconds, 0
        monkeypatch.setattr(counting.clock, "now", lambda: self.now)
        self.session, self.pause, self.waited = session, Pause(), 0
        self.counter = CallCounter(session, "jax", wait=self.wait)

    def wait(self, result):
        self.waited += 1

    def function(self):
        self.calls += 1
        self.now += self.seconds

    def run(self, count):
        for _ in range(count):
            if self.pause.left:
                self.pause.left -= 1
                self.function()
            else:
                self.counter.call("step", self.function, (), {}, pause=self.pause)
        (progress,) = self.session.counters._counters
        return progress.state()


def test_short_calls_are_all_counted_and_few_are_looked_at(session_of, monkeypatch):
    called = Called(session_of(), monkeypatch, 1e-5)
    state = called.run(1000)
    assert called.calls == state["units"] == 1000
    assert state["steady"] == pytest.approx(1e-5) and state["seconds"] == pytest.approx(0.01, rel=0.05)
    assert called.waited == HEAD + 1 + (1000 - HEAD - 1) // (MOST + 1)


def test_long_calls_are_all_looked_at(session_of, monkeypatch):
    called = Called(session_of(), monkeypatch, 1e-3)
    assert called.run(100)["units"] == called.waited == 100


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_what_a_handler_raises_while_a_result_is_waited_for_is_the_programs(session_of):
    from modak_deploy.launch.frameworks.pacing import Pace

    class Array:
        nbytes = 4

        def is_deleted(self):
            return False

        def block_until_ready(self):
            signal.raise_signal(signal.SIGUSR1)

    def late(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, late)
    try:
        pace = Pace(lambda result: [result], lambda: 1)
        with pytest.raises(TimeoutError):
            for _ in range(4):
                pace(Array())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not pace.over


def test_what_trials_know_of_the_calls_ahead_is_counted_with_for_one_function_of_a_name(session_of, monkeypatch):
    called = Called(session_of(), monkeypatch, 0.01)
    called.counter.paced("step", lambda: 0.5)
    called.run(10)
    (progress,) = called.session.counters._counters
    progress.expected = 110
    assert progress.left() == pytest.approx(50, rel=0.01)
    called.counter.paced("step", lambda: 0.25)
    assert progress.left() == pytest.approx(1, rel=0.01)
