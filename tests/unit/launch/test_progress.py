"""What the launcher's counters know of a program's units of work."""

import pytest

from modak_deploy.launch.progress import Progress


def _counted(expected: int | None, seconds: list[float], start: float = 2.0) -> Progress:
    """Count units that follow one another, the first of which begins ``start`` seconds after the process."""
    progress = Progress("work", "call", 100.0, expected)
    end = 100.0 + start
    for each in seconds:
        end += each
        progress.add(end, each)
    return progress


def test_the_total_is_forecast_once_after_5_percent_of_the_units() -> None:
    before = _counted(100, [3.0, *[0.5] * 3])
    assert before.state().get("forecast") is None
    after = _counted(100, [3.0, *[0.5] * 4])
    assert after.state()["forecast"] == pytest.approx(2.0 + 5.0 + 95 * 0.5)
    later = _counted(100, [3.0, *[0.5] * 4, *[9.0] * 50])
    assert later.state()["forecast"] == after.state()["forecast"]


def test_few_units_are_awaited_before_a_forecast() -> None:
    assert _counted(10, [1.0, 1.0]).forecast is None
    assert _counted(10, [1.0, 1.0, 1.0]).forecast == pytest.approx(2.0 + 10.0)


def test_nothing_is_forecast_of_an_unknown_number_of_units() -> None:
    assert "forecast" not in _counted(None, [0.1] * 200).state()


def test_more_units_than_expected_are_no_negative_rest() -> None:
    progress = Progress("work", "batch", 0.0, 4)
    progress.add(10.0, 10.0, units=20)
    assert progress.forecast == pytest.approx(10.0)


def test_pauses_between_units_are_part_of_the_forecast() -> None:
    progress = Progress("work", "call", 0.0, 200)
    for number in range(10):
        progress.add(1.0 + number, 0.25)
    assert progress.forecast == pytest.approx(10.0 + 190 * 1.0)
    assert progress.left() == pytest.approx(190 * 1.0)


def test_what_comes_at_every_fifth_unit_counts_in_the_mean_pause_and_one_long_pause_does_not() -> None:
    progress, end = Progress("work", "call", 0.0, 1000), 0.0
    for number in range(1, 41):
        end += 0.1 + (0.5 if number % 5 == 0 else 0.0) + (60.0 if number == 7 else 0.0)
        progress.add(end, 0.1)
    left = progress.left()
    assert left is not None
    assert 960 * 0.2 < left < 960 * 0.22


def test_what_comes_with_each_epoch_counts_in_the_mean_pause() -> None:
    progress, end = Progress("work", "batch", 0.0, 2000), 0.0
    for number in range(1, 101):
        end += 0.1 + (3.0 if number % 20 == 1 else 0.0)
        progress.add(end, 0.1)
    left = progress.left()
    assert left is not None
    assert left == pytest.approx(1900 * (0.1 + 4 * 3.0 / 99))


def test_units_that_are_now_and_then_slower_count_in_the_forecast_and_one_that_hung_hardly() -> None:
    times = [0.1, 0.1, 0.1, 0.14] * 16
    left = _counted(1064, times).left()
    assert left == pytest.approx(1000 * 0.11, rel=0.01)
    held_up = _counted(1064, [*times[:-1], 50.0]).left()
    assert held_up == pytest.approx(1000 * 0.112, rel=0.02)


def test_trials_know_how_fast_units_are_from_now_on() -> None:
    progress = _counted(100, [1.0] * 4)
    progress.pace = lambda: 0.4
    progress.add(107.0, 1.0)
    assert progress.forecast == pytest.approx(7.0 + 95 * 0.4)
    progress.pace = lambda: None
    assert progress.left() == pytest.approx(95 * 1.0)


def test_what_is_left_is_told_with_the_state() -> None:
    assert _counted(10, [0.5] * 10).state()["left"] == 0
    assert "left" not in _counted(None, [0.5] * 10).state()
