"""The scale model: each law is found again from times that follow it, and none does what time cannot."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modak.performance.scaling import LAWS, Point, ScaleModel, amdahl, fit_scale

RANKS = (1, 2, 4, 8, 16, 32, 64)


def points(law, noise=0.0, threads=(1,), sizes=(1.0,), ranks=RANKS):
    draw = random.Random(5)
    return [
        Point(math.ceil(r / 8), r, t, law(r, t, s) * math.exp(draw.gauss(0, noise)), s)
        for r in ranks
        for t in threads
        for s in sizes
    ]


def test_amdahl_is_found_again():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r))
    assert model.law == "Amdahl"
    assert model.coefficients == pytest.approx((90, 10))
    assert model.efficiency(Point(1, 8)) == pytest.approx(100 / (8 * (10 + 90 / 8)))


def test_weak_scaling_is_found_again():
    model = fit_scale(points(lambda r, t, s: 5 + 40 * s / r + 3 * s, sizes=(1.0, 4.0, 16.0)))
    assert model.law == "Gustafson"
    assert model.seconds(Point(16, 128, 1, size=128.0)) == pytest.approx(5 + 40 + 3 * 128)


def test_a_law_that_slows_down_is_found_again():
    model = fit_scale(points(lambda r, t, s: 100 / r + 2 * (r - 1) / r + 0.5 * (r - 1)))
    assert model.law == "USL"
    assert model.seconds(Point(8, 64)) > model.seconds(Point(2, 14))


def test_threads_that_share_less_than_ranks_are_found_again():
    model = fit_scale(points(lambda r, t, s: 80 / (r * t) + 20 / r + 2, threads=(1, 2, 4)))
    assert model.law == "hybrid"
    assert model.seconds(Point(1, 8, 8)) == pytest.approx(80 / 64 + 20 / 8 + 2)


def test_the_interval_holds_what_comes_and_grows_beyond_what_was_measured():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r, noise=0.03, ranks=RANKS * 2))
    here = model.interval(Point(4, 32))
    assert here.low < 10 + 90 / 32 < here.high
    far = model.interval(Point(128, 1024))
    assert far.high / far.low > here.high / here.low
    assert far.low < 10 + 90 / 1024 < far.high


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points_give_no_law(count):
    assert fit_scale(points(lambda r, t, s: 10 / r, ranks=RANKS[:count])) is None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999, 1.0])
def test_a_given_share_never_divides_by_zero(share):
    model = amdahl(share)
    for workers in (1, 2, 1000, 10**6):
        efficiency = model.efficiency(Point(1, workers))
        assert 0 < efficiency <= 1 + 1e-12
    assert model.efficiency(Point(1, 1)) == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 512), st.integers(1, 16), st.floats(0.01, 1e5, allow_nan=False)),
        min_size=4,
        max_size=12,
    )
)
def test_whatever_was_measured_no_time_is_negative_or_nothing(values):
    model = fit_scale([Point(1, ranks, threads, seconds) for ranks, threads, seconds in values])
    if model is not None:
        for workers in (1, 3, 100, 5000):
            point = Point(1, workers)
            assert model.seconds(point) >= 0
            assert math.isfinite(model.seconds(point))
            assert min(model.coefficients) >= 0


def test_every_law_has_a_time_for_one_worker():
    for law, terms in LAWS.items():
        width = len(terms(Point(1, 1)))
        assert ScaleModel(law, (1.0,) * width, 0.1, 9, 8).seconds(Point(1, 1)) > 0
