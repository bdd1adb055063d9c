"""What a spot instance is expected to cost, against a simulation of interruptions."""

import math
import random

import pytest

from modak_deploy.errors import InfeasibleError
from modak_deploy.optimiser.interruptions import check_deadline, expected, probability


def simulated(rate: float, hours: float, rounds: int = 20_000) -> float:
    """Return the mean hours until a run of so many has got through, with interruptions drawn at random."""
    draw = random.Random(1)
    total = 0.0
    for _ in range(rounds):
        while (until := draw.expovariate(rate)) < hours:
            total += until
        total += hours
    return total / rounds


@pytest.mark.parametrize(("rate", "hours"), [(0.05, 1.0), (0.5, 2.0), (1.0, 0.5)])
def test_expected_hours_are_those_of_a_simulation(rate: float, hours: float) -> None:
    assert expected(rate, hours) == pytest.approx(simulated(rate, hours), rel=0.03)


def test_without_interruptions_nothing_is_lost() -> None:
    assert (expected(0.0, 3.0), probability(0.0, 3.0)) == (3.0, 0.0)


def test_the_probability_of_an_interruption() -> None:
    assert probability(0.1, 2.0) == pytest.approx(1 - math.exp(-0.2))


def test_a_run_that_never_gets_through_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="never come to the end"):
        expected(60.0, 100.0)


@pytest.mark.parametrize(("seconds", "deadline", "fits"), [(400, 1000, True), (411, 1000, False), (9e9, None, True)])
def test_a_deadline_has_room_for_a_second_run(seconds: float, deadline: int | None, fits: bool) -> None:
    if fits:
        check_deadline(seconds, 90.0, deadline)
        return
    with pytest.raises(InfeasibleError, match="a second one take 1002 s"):
        check_deadline(seconds, 90.0, deadline)


def test_a_deadline_for_which_no_time_is_known() -> None:
    with pytest.raises(InfeasibleError, match="no time is known"):
        check_deadline(None, 90.0, 60)
