"""The small-sample statistics against values from tables and against their own meaning."""

import math
import random

import pytest

from modak_deploy.performance.statistics import (
    Moments,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
    t975,
)


@pytest.mark.parametrize(
    ("degrees", "value"), [(0.5, 12.706), (1, 12.706), (4, 2.776), (4.9, 2.776), (30, 2.042), (40, 2.021), (120, 1.980)]
)
def test_quantiles_of_student(degrees, value):
    assert t975(degrees) == pytest.approx(value, abs=0.004)


def test_a_single_value_is_known_to_a_factor_of_two():
    interval = prediction_interval(Moments.of_values([10.0]))
    assert (interval.low, interval.value, interval.high) == pytest.approx((5, 10, 20))


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


def test_a_summary_has_the_moments_of_its_sample():
    draw = random.Random(3)
    values = [math.exp(draw.gauss(2, 0.1)) for _ in range(1000)]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / 999)
    told, real = Moments.of_summary(mean, deviation, 1000), Moments.of_values(values)
    assert told.mean == pytest.approx(real.mean, abs=1e-3)
    assert told.variance == pytest.approx(real.variance, rel=0.05)
