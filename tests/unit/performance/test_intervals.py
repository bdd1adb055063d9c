"""Intervals of the time model: what two configurations differ in, and how far the model erred there."""

import math

import pytest

from lawful import HERE
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration
from modak_deploy.performance.estimators import Row
from modak_deploy.performance.features import Case, change, difference
from modak_deploy.performance.intervals import UNTESTED, HeldOut, quantile, width_of_times, widths_of
from modak_deploy.performance.timemodel import ANY

CASE = Case("ai_training", "keras", Workload(model="w"), HERE, Configuration())


def told_of(default, *others, workload):
    """Return one setting; each is the measured seconds, the told ones, and the levers that are on."""
    rows = [(True, default), *((False, other) for other in others)]
    return [
        HeldOut(
            Row(workload, CASE, workload, is_default, dict.fromkeys(names, 1.0), 1, {"steady": measured}, measured),
            1,
            seconds,
        )
        for is_default, (measured, seconds, *names) in rows
    ]


def test_each_workload_counts_once_for_the_interval_of_a_ratio():
    """Levers were told 1.1 times too high in one workload, twice, and 1.2 and 1.3 times too low in two others."""
    told = [
        *told_of((4.0, 4.0), (4.0, 4.0 / 1.1, "lever:a"), (4.0, 4.0 / 1.1, "lever:b"), workload="u"),
        *told_of((4.0, 4.0), (4.0, 4.8, "lever:a"), (4.0, None, "lever:b"), workload="v"),
        *told_of((4.0, 4.0), (4.0, 5.2, "lever:a"), (4.0, 8.0, "runs:jax"), workload="w"),
    ]
    square = {n: math.log(n) ** 2 for n in (1.1, 1.2, 1.3, 2.0)}
    levers = 2.353 * math.sqrt((square[1.1] + square[1.2] + square[1.3]) / 3)
    both = 2.353 * math.sqrt((square[1.1] + square[1.2] + (square[1.3] + square[2.0]) / 2) / 3)
    each = {"levers": pytest.approx(levers), "lever:a": pytest.approx(levers)}
    assert widths_of(told) == {ANY: pytest.approx(both), **each}


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ({"runs:tensorflow": 1.0}, {"runs:jax": 1.0, "lever:a": 1.0}, "engine"),
        ({"lever:a": 1.0}, {"compiler:xla": 1.0, "compiler:xla x flops": -2.0, "lever:xla": 1.0}, "compiler"),
        ({"container": 0.0}, {"container": 1.0, "lever:a": 1.0}, "image"),
        ({"lever:a": 1.0, "flops": 3.0}, {"lever:a x flops": 1.0, "flops": 3.0}, "levers"),
    ],
)
def test_what_two_configurations_differ_in(one, other, word):
    assert change(one, other) == change(other, one) == word


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"runs:jax": 1.0}, {"runs:jax": 1.0, "lever:a": 1.0, "lever:a x flops": -2.0}, "lever:a"),
        ({"runs:tensorflow": 1.0}, {"runs:jax": 1.0, "lever:a": 1.0}, "lever:a+runs:jax+runs:tensorflow"),
        ({"container": 0.0}, {"container": 1.0, "lever:a": 1.0}, "container+lever:a"),
        ({"lever:a": 1.0, "flops": 3.0}, {"lever:a": 1.0, "flops": 4.0}, ""),
    ],
)
def test_the_names_that_two_configurations_differ_in(one, other, names):
    assert difference(one, other) == difference(other, one) == names


def test_what_three_workloads_were_measured_with_has_an_interval_of_its_own():
    """Lever a is told well in all of them, b badly; c was measured with one alone; rows of one name do not count."""
    told = []
    for workload, wrong in (("u", 1.5), ("v", 1.6), ("w", 1.7)):
        levers = [(4.0, 4.0 * 1.01, "lever:a"), (4.0, 4.0 * wrong, "lever:b"), (4.0, 8.0)]
        if workload == "u":
            levers.append((4.0, 4.0, "lever:c"))
        told += told_of((4.0, 4.0), *levers, workload=workload)
    widths = widths_of(told)
    assert set(widths) == {ANY, "levers", "lever:a", "lever:b"}
    assert widths["lever:a"] < 0.1 * widths["lever:b"]
    assert widths["lever:a"] == pytest.approx(2.353 * math.log(1.01))


def test_what_was_never_told_of_a_workload_held_out_is_not_certain():
    told = told_of((4.0, 4.0), (4.0, None, "lever:a"), workload="u")
    assert widths_of(told) == {ANY: UNTESTED}
    assert math.exp(UNTESTED) >= 100


@pytest.mark.parametrize(
    ("errors", "level", "width"),
    [([], 0.9, 0.0), ([0.5], 0.9, 0.5), (list(range(1, 100)), 0.9, 90), ([-3, 1, 2], 0.9, 3), (range(1, 11), 0.5, 6)],
)
def test_the_conformal_quantile(errors, level, width):
    assert quantile([[error] for error in errors], level) == width


def test_each_workload_counts_once_for_the_interval_of_times():
    much, others = [0.1] * 97 + [0.2] * 3, [[0.5, 0.6], [0.7, 0.8]]
    assert quantile([much, *others], 0.5) == 0.6, "shares of 1, 1 and 0 of 3: half of four workloads"
    assert quantile([much, *others], 0.9) == 0.8


def test_the_interval_of_times_is_wider_where_few_workloads_were_held_out():
    """The largest of three errors would hold three of four times, and not nine of ten."""
    few = {"u": [0.1], "v": [-0.1], "w": [0.1]}
    assert width_of_times(few) == pytest.approx(2.353 * 0.1)
    assert width_of_times({str(n): [0.1] for n in range(9)}) == 0.1
    assert width_of_times({}) == UNTESTED
