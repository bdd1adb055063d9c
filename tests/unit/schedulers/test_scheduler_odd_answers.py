"""Whatever Slurm or a machine answers is states or one clean error, and takes no time or memory to speak of."""

import random

import pytest

from modak_deploy.errors import ModakError
from modak_deploy.schedulers import options, registry
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.slurm.states import from_row
from modak_deploy.transport.base import Completed
from modak_deploy.util.units import seconds_of
from odd_answers import scheduler_answers, texts


@pytest.mark.parametrize("seed", range(8))
def test_states_or_one_clean_error(seed: int) -> None:
    draw = random.Random(seed)
    for case, text in scheduler_answers(draw, 150, "slurm", "process"):
        scheduler = registry.get(case["scheduler"])
        ids = [str(case["id"])]
        try:
            states = scheduler.parse_status(Completed(case.get("rc", 0), text, case.get("stderr", "")), ids)
        except ModakError as error:
            assert str(error)
            continue
        assert set(states) <= set(ids)
        for state in states.values():
            check(state)


def check(state: QueueState) -> None:
    assert isinstance(state, QueueState)
    numbers = (state.exit_code, state.signal, state.elapsed, state.limit)
    assert all(number is None or 0 <= number < 2**63 for number in numbers)
    assert len(state.nodes) <= 200_000


@pytest.mark.parametrize("scheduler", ["slurm", "process"])
def test_ids_or_one_clean_error(scheduler: str) -> None:
    draw = random.Random(7)
    tag = "modak-0123456789abcdef"
    for text in texts(draw, 600):
        for answer in (text, f"12\n{text}\n13", f"{text};cluster", f"modak-process {text}-1"):
            done = Completed(0, answer, "")
            found = registry.get(scheduler).parse_find(done, tag)
            assert all(identifier.isascii() and identifier.isprintable() for identifier in found)
            try:
                identifier = registry.get(scheduler).parse_submit(done)
            except ModakError as error:
                assert str(error)
            else:
                assert identifier.isascii()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:00", 60),
        ("2-03:04:05", 183845),
        ("90", 90),
        ("²", None),
        ("٣:00", None),
        ("9" * 5000, None),
        (f"{'9' * 5000}:00", None),
        ("UNLIMITED", None),
        ("-1", None),
        ("1_0", None),
    ],
)
def test_times(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_an_array_larger_than_any_is_not_spread_out() -> None:
    (row,) = from_row("10_[0-2147483647]|10|0-2147483647|PENDING|0:00|5:00||None|N/A")
    assert row[:2] == ("10", "0-2147483647")
    assert len(options.hosts(",".join(["n[1-99999]"] * 1000))) <= 200_000
