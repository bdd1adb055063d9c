"""The small-sample statistics against values from tables and against their own meaning."""

import math
import random

import pytest

from modak_deploy.performance.statistics import (
    Interval,
    Moments,
    grouped_ratio_interval,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
    t975,
    weighted,
)


@pytest.mark.parametrize(
    ("degrees", "value"), [(0.5, 12.706), (1, 12.706), (4, 2.776), (4.9, 2.776), (30, 2.042), (40, 2.021), (120, 1.980)]
)
def test_quantiles_of_student(degrees, value):
    assert t975(degrees) == pytest.approx(value, abs=0.004)


def test_a_single_value_is_known_to_a_factor_of_two():
    interval = prediction_interval(Moments.of_values([10.0]))
    assert (interval.low, interval.value, interval.high) == pytest.approx((5, 10, 20))


@pytest.mark.parametrize("seconds", [10.0, 2.31])
def test_the_run_after_two_that_agree_exactly_may_differ(seconds):
    """Clocks of jobs have steps of hundredths: a third run of the same seconds lay outside of the interval, too."""
    interval = prediction_interval(Moments.of_values([seconds, seconds]))
    assert interval.low < seconds - 0.01 < seconds + 0.01 < interval.high
    assert interval.high / interval.low < 1.2


def test_the_prediction_interval_covers_the_next_run():
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        values = [math.exp(draw.gauss(1, 0.2)) for _ in range(6)]
        interval = prediction_interval(Moments.of_values(values[:5]))
        hits += interval.low <= values[5] <= interval.high
    assert 0.93 < hits / 2000 < 0.97


def test_the_interval_of_equal_samples_includes_one():
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        a, b = ([math.exp(draw.gauss(1, 0.2)) for _ in range(5)] for _ in range(2))
        interval = ratio_interval(Moments.of_values(a), Moments.of_values(b))
        hits += interval.low <= 1 <= interval.high
    assert hits / 2000 > 0.94


def test_what_slows_a_block_falls_out_of_the_paired_ratio():
    base = {0: 10.0, 1: 20.0, 2: 40.0, 3: 10.0}
    other = {0: 5.1, 1: 9.9, 2: 20.2, 4: 1.0}
    interval = paired_ratio_interval(base, other)
    assert 1.9 < interval.low < 2 < interval.high < 2.1
    loose = ratio_interval(Moments.of_values(list(base.values())), Moments.of_values(list(other.values())))
    assert loose.low < 1


def test_two_common_blocks_are_too_few():
    assert paired_ratio_interval({0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0, 2: 3.0}) is None


def test_what_slows_a_group_falls_out_of_the_ratio_of_samples_in_groups():
    """Of one value each it is the paired ratio, and groups of different sizes do not shift it."""
    ones, others = {1: 1.0, 2: 2.1, 3: 4.1}, {1: 0.5, 2: 1.0, 3: 2.0}
    grouped = grouped_ratio_interval({k: [v] for k, v in ones.items()}, {k: [v] for k, v in others.items()})
    paired = paired_ratio_interval(ones, others)
    assert (grouped.value, grouped.low, grouped.high) == pytest.approx((paired.value, paired.low, paired.high))
    slow = grouped_ratio_interval({1: [1.0, 1.01], 2: [9.0] * 5}, {1: [0.5, 0.51], 2: [4.5]})
    assert slow.value == pytest.approx(2, rel=0.01) and slow.low > 1.9


def test_equal_times_in_groups_make_no_ratio_certain():
    ratio = grouped_ratio_interval({1: [1.20], 2: [1.20]}, {1: [1.19], 2: [1.19]})
    assert ratio.low < 1 < ratio.high


def test_equal_times_in_blocks_make_no_ratio_certain():
    ratio = paired_ratio_interval(dict.fromkeys(range(3), 1.20), dict.fromkeys(range(3), 1.19))
    assert ratio.low < 1 < ratio.value
    surely = paired_ratio_interval(dict.fromkeys(range(3), 1.20), dict.fromkeys(range(3), 1.10))
    assert surely.low > 1.05


@pytest.mark.parametrize("other", [{}, {3: [1.0, 2.0]}, {1: []}, {1: [1.0]}])
def test_groups_without_a_spread_have_no_ratio(other):
    assert grouped_ratio_interval({1: [1.0], 2: [1.0, 2.0]}, other) is None


def test_the_interval_of_groups_covers_what_they_share():
    draw, hits = random.Random(7), 0
    for _ in range(1000):
        groups = {group: draw.gauss(0, 0.5) for group in range(4)}
        first, second = (
            {group: [math.exp(shift + at + draw.gauss(0, 0.05)) for _ in range(draw.randint(1, 3))]
             for group, at in groups.items()}
            for shift in (0.1, 0.0)
        )  # fmt: skip
        interval = grouped_ratio_interval(first, second)
        hits += interval.low <= math.exp(0.1) <= interval.high
    assert 0.93 < hits / 1000 < 0.97


def test_a_summary_has_the_moments_of_its_sample():
    draw = random.Random(3)
    values = [math.exp(draw.gauss(2, 0.1)) for _ in range(1000)]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / 999)
    told, real = Moments.of_summary(mean, deviation, 1000), Moments.of_values(values)
    assert told.mean == pytest.approx(real.mean, abs=1e-3)
    assert told.variance == pytest.approx(real.variance, rel=0.05)


def test_estimates_are_weighted_by_their_widths():
    wide, narrow = Interval(1.5, 0.75, 3.0), Interval(1.25, 1.1, 1.42)
    together = weighted([wide, narrow])
    assert narrow.value < together.value < 1.3
    assert narrow.low < together.low < together.value < together.high < 1.45
    assert weighted([narrow]).low == pytest.approx(narrow.value / (narrow.high / narrow.low) ** 0.5)


def test_estimates_that_contradict_each_other_are_no_better_than_their_disagreement():
    together = weighted([Interval(1.0, 0.99, 1.01), Interval(2.0, 1.98, 2.02)])
    assert together.value == pytest.approx(2**0.5, rel=0.01)
    assert together.low < 1.1 and together.high > 1.8


def test_the_weighted_mean_covers_what_both_estimate():
    draw = random.Random(3)
    hits = 0
    for _ in range(2000):
        parts = []
        for deviation in (0.05, 0.15):
            centre = draw.gauss(0.3, deviation)
            parts.append(Interval(*(math.exp(centre + side * 1.96 * deviation) for side in (0, -1, 1))))
        together = weighted(parts)
        hits += together.low <= math.exp(0.3) <= together.high
    assert 0.93 < hits / 2000 < 0.99


def test_no_interval_is_infinite():
    """Whatever a record says: it comes from a target, or from somebody else's file."""
    wild = Moments.of_values([1e-300, 3e11])
    for interval in (
        prediction_interval(wild),
        ratio_interval(wild, Moments.of_values([3e11, 1e-300])),
        ratio_interval(Moments.of_values([3e11]), Moments.of_values([5e-324])),
        prediction_interval(Moments.of_summary(5e-324, 1e300, 3)),
        paired_ratio_interval({1: 3e11, 2: 1.0, 3: 1e-300}, {1: 1e-300, 2: 1.0, 3: 3e11}),
    ):
        assert 0 < interval.low <= interval.value <= interval.high < math.inf


def test_times_that_agree_exactly_leave_a_spread():
    """Two of 1.20 s and two of 1.19 s, in hundredths as /proc/uptime counts them."""
    ratio = ratio_interval(Moments.of_values([1.2, 1.2]), Moments.of_values([1.19, 1.19]))
    assert ratio.low < 1 < ratio.value
    surely = ratio_interval(Moments.of_values([1.2, 1.2]), Moments.of_values([1.1, 1.1]))
    assert surely.low > 1.05
