"""The scale model: each law is found again from times that follow it, and none does what time cannot."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modak_deploy.performance.laws import LAWS, Point, unknowns, value
from modak_deploy.performance.scaling import Fitted, ScaleModel, amdahl, fit_scale
from modak_deploy.performance.statistics import t95, t975

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
            interval = model.interval(point)
            assert 0 <= interval.low <= interval.value <= interval.high < math.inf


def test_every_law_has_a_time_for_one_worker():
    for law, terms in LAWS.items():
        width = len(terms(Point(1, 1)))
        assert value(law, (1.0,) * width, Point(1, 1)) > 0


@pytest.mark.parametrize("count", [4, 6, 8])
@pytest.mark.parametrize("seconds", [lambda n: n - 1, lambda n: 2.0 * (n - 1) ** 1.1, lambda n: 1e-300 * n])
def test_times_that_only_grow_leave_some_for_one_worker(seconds, count):
    """As of a program that its messages slow down, of which no run of one rank is known."""
    model = fit_scale([Point(1, 2**power, 1, seconds(2**power)) for power in range(1, count + 1)])
    if model is not None:
        assert model.seconds(Point(1, 1)) > 0
        assert 0 < model.efficiency(Point(1, 1)) < math.inf


def test_a_power_law_is_found_again():
    model = fit_scale(points(lambda r, t, s: 100 * r**-0.7))
    assert model.law == "power law"
    assert model.seconds(Point(32, 256)) == pytest.approx(100 * 256**-0.7)


def test_a_step_between_one_node_and_several_is_found_again():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r + 6 * (r > 8)))
    assert model.law == "network"
    assert model.seconds(Point(1, 8)) == pytest.approx(10 + 90 / 8)
    assert model.seconds(Point(2, 16)) == pytest.approx(16 + 90 / 16)


def test_laws_that_foretell_alike_are_averaged():
    model = fit_scale(points(lambda r, t, s: 3 + 90 / r**0.95, noise=0.04))
    assert len(model.laws) > 1
    assert sum(one.weight for one in model.laws) == pytest.approx(1)
    told = [one.seconds(Point(16, 128)) for one in model.laws]
    assert min(told) < model.seconds(Point(16, 128)) < max(told)
    assert list(model.laws) == sorted(model.laws, key=lambda one: -one.weight)


def test_the_interval_grows_beyond_what_was_measured_on_both_sides():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r, noise=0.03, ranks=(4, 8, 16, 32, 64) * 2))
    widths = [(i := model.interval(Point(math.ceil(r / 8), r))).high / i.low for r in (1, 2, 8, 128, 512)]
    assert widths[0] > widths[1] > widths[2] < widths[3] < widths[4]


def test_the_interval_grows_where_several_nodes_were_not_measured():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r, noise=0.03, ranks=(1, 2, 3, 4, 5, 6, 7, 8)))
    one, two = (model.interval(Point(nodes, 8)) for nodes in (1, 2))
    assert two.value == one.value
    assert two.high / two.low > one.high / one.low


def test_a_law_needs_two_layouts_more_than_coefficients():
    law = lambda r, t, s: 80 / (r * t) + 20 / r + 2 + math.log2(r)  # noqa: E731
    for count in range(4, 8):
        layouts = points(law, threads=(1, 2), ranks=(1, 2, 3, 4))[:count]
        model = fit_scale(layouts)
        assert model is None or all(unknowns(one.law, layouts) + 2 <= count for one in model.laws)


def test_times_that_no_law_foretells_give_none():
    assert fit_scale([Point(1, r, 1, 1.0 if place % 2 else 100.0) for place, r in enumerate(RANKS)]) is None


@pytest.mark.parametrize("place", range(1, len(RANKS) - 1))
@pytest.mark.parametrize("factor", [0.6, 1.8])
def test_one_disturbed_layout_does_not_replace_a_tight_law(place, factor):
    tight = points(lambda r, t, s: 10 + 90 / r)
    disturbed = tight[place]
    noisy = Point(disturbed.nodes, disturbed.ranks, 1, disturbed.seconds * factor)
    model = fit_scale([*tight[:place], noisy, *tight[place + 1 :]])
    assert "Amdahl" in [one.law for one in model.laws]
    for point in tight[:place] + tight[place + 1 :]:
        assert model.seconds(point) == pytest.approx(point.seconds, rel=0.1)


def test_one_disturbed_run_among_repeats_changes_nothing():
    tight = points(lambda r, t, s: 10 + 90 / r, ranks=RANKS * 3)
    noisy = Point(tight[4].nodes, tight[4].ranks, 1, 3 * tight[4].seconds)
    assert fit_scale([*tight[:4], noisy, *tight[5:]]).laws == fit_scale(tight).laws


def test_the_efficiency_is_the_measured_one_where_there_is_one():
    measured = points(lambda r, t, s: 10 + 90 / r, ranks=RANKS[:-1])
    model = fit_scale([*measured, Point(8, 64, 1, 12.0)])
    assert model.efficiency(Point(8, 64)) == pytest.approx(100 / (64 * 12))
    assert model.efficiency(Point(1, 3)) == pytest.approx(100 / (3 * 40), rel=0.05)


def test_the_interval_of_a_lower_level_is_narrower():
    model = fit_scale(points(lambda r, t, s: 10 + 90 / r, noise=0.03))
    for point in (Point(4, 32), Point(16, 128)):
        wide, narrow = model.interval(point), model.interval(point, level=0.9)
        assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(("ranks", "times"), [(32, 1), (64, 3), (128, 5), (1, 1)])
def test_each_doubling_beyond_adds_twice_the_error(ranks, times):
    model = ScaleModel((Fitted("Amdahl", (90, 10), 0.05),), points=7, layouts=7, most=32)
    for level, factor in ((0.95, t975(5)), (0.9, t95(5))):
        interval = model.interval(Point(8, ranks), level=level)
        assert math.log(interval.high / interval.value) == pytest.approx(factor * 0.05 * times)
        assert math.log(interval.value / interval.low) == pytest.approx(factor * 0.05 * times)


def test_where_laws_differ_the_interval_is_twice_as_wide_as_that():
    laws = tuple(Fitted("Amdahl", (0, seconds), 0.0, weight=0.5) for seconds in (9.0, 11.0))
    interval = ScaleModel(laws, points=6, layouts=6, most=32).interval(Point(4, 32))
    apart = math.sqrt((math.log(0.9) ** 2 + math.log(1.1) ** 2) / 2)
    assert interval.value == pytest.approx(10)
    assert math.log(interval.high / interval.value) == pytest.approx(t975(5) * 2 * apart)


@pytest.mark.parametrize("size", [1.0, 64.0])
def test_the_interval_grows_where_the_size_was_not_measured(size):
    model = fit_scale(points(lambda r, t, s: 10 + 90 * s / r, noise=0.03, sizes=(4.0, 16.0)))
    widths = [(i := model.interval(Point(1, 8, 1, size=other))).high / i.low for other in (4.0, 8.0, 16.0, size)]
    assert widths[0] == pytest.approx(widths[2], rel=0.3)
    assert math.log(widths[3]) > 2 * math.log(max(widths[:3]))


def test_a_given_share_is_that_of_the_given_size():
    for size in (1.0, 60000.0):
        assert amdahl(0.9, size).efficiency(Point(1, 64, size=size)) == pytest.approx(1 / (64 * (0.1 + 0.9 / 64)))


def test_times_that_follow_a_law_exactly_do_not_tell_for_sure_how_it_goes_on():
    model = fit_scale([Point(1, ranks, 1, 8.0 / ranks) for ranks in (1, 2, 4, 8)])
    here, far = model.interval(Point(1, 8)), model.interval(Point(16, 128))
    assert here.high == pytest.approx(here.low)
    assert far.high > 1.1 * far.low
