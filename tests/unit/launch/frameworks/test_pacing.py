"""Calls that return before their work is done: no more are under way than the devices need."""

import threading
import weakref

from modak_deploy.launch.frameworks.pacing import IN_FLIGHT, SMALL, Pace


class Array:
    """An array of work that is done when somebody waits for it."""

    def __init__(self, nbytes: int = 4, *, deleted: bool = False, fails: bool = False) -> None:
        self.nbytes = nbytes
        self.waited = 0
        self._deleted = deleted
        self._fails = fails

    def is_deleted(self) -> bool:
        return self._deleted

    def block_until_ready(self) -> "Array":
        assert not self._deleted
        if self._fails:
            raise RuntimeError("the device is gone")
        self.waited += 1
        return self


def pace(devices: int = 1) -> Pace:
    return Pace(list, lambda: devices)


def test_the_call_before_the_last_two_is_waited_for() -> None:
    wait, results = pace(), [[Array()] for _ in range(6)]
    for result in results:
        wait(result)
    assert [result[0].waited for result in results] == [1] * (6 - IN_FLIGHT) + [0] * IN_FLIGHT


def test_each_device_has_calls_under_way() -> None:
    wait, results = pace(devices=3), [[Array()] for _ in range(8)]
    for result in results:
        wait(result)
    assert sum(result[0].waited for result in results) == 8 - 3 * IN_FLIGHT


def test_the_smallest_array_is_kept_and_what_is_none_is_left_out() -> None:
    wait, results = pace(), [[Array(1000), 3, Array(4)] for _ in range(3)]
    for result in results:
        wait(result)
    assert [leaf.waited for leaf in results[0] if isinstance(leaf, Array)] == [0, 1]


def test_what_was_donated_is_not_waited_for() -> None:
    wait = pace()
    earlier, latest = [Array(deleted=True), Array(8)], [Array(4)]
    for result in (earlier, [Array()], latest):
        wait(result)
    assert earlier[1].waited == 1
    wait = pace()
    for result in ([Array(deleted=True)], [Array(deleted=True)], latest):
        wait(result)
    assert latest[0].waited == 1


def test_large_arrays_live_as_long_as_the_program_wants() -> None:
    wait, large = pace(devices=8), SMALL + 1
    first = Array(large)
    gone = weakref.ref(first)
    wait([first])
    del first
    assert gone() is None
    latest = [Array(large) for _ in range(16)]
    for array in latest:
        wait([array])
    assert [array.waited for array in latest] == [0] * 15 + [1], "of an earlier one nothing is left to wait for"


def test_work_that_failed_is_the_programs_to_see() -> None:
    wait = pace()
    for _ in range(5):
        wait([Array(fails=True)])
    assert wait.over


def test_results_without_arrays_are_not_waited_for() -> None:
    wait = pace()
    for _ in range(5):
        wait([1, None])
    assert not wait.over


def test_a_thread_waits_for_its_own_calls_alone() -> None:
    """What JAX has the host do in a thread of its own is a part of the call that would be waited for."""
    wait, first = pace(), Array()
    for result in ([first], [Array()]):
        wait(result)
    called = [threading.Thread(target=wait, args=([Array()],)) for _ in range(3)]
    for thread in called:
        thread.start()
        thread.join()
    assert not first.waited
    wait([Array()])
    assert first.waited == 1
