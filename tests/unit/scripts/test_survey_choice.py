"""``benchmarks/survey_choice.py``: what is chosen by half of a survey's rounds, and how the other half judges it."""

import pytest

from lawful import measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.measurement import Run


@pytest.fixture
def survey_choice(benchmark_module):
    return benchmark_module("survey_choice", "survey_table")


def surveyed(times):
    """Return the measurements of two sets, of which each round has the seconds of a unit."""
    by_levers = {tuple(record.configuration.levers): record for record in measured(1).records}
    records = []
    for levers, seconds in times.items():
        runs = [
            Run(total=1 + 2 * unit, first=unit, later=[unit], block=number) for number, unit in enumerate(seconds, 1)
        ]
        records.append(by_levers[levers].model_copy(update={"runs": runs, "kind": "trial"}))
    return records


DEFAULT, FASTER = ("keras-tensorflow",), ("keras-tensorflow", "malloc-hugepages")


def test_what_is_fastest_in_both_halves_has_no_regret(survey_choice):
    found = list(survey_choice.judged(surveyed({DEFAULT: [1.0, 1.1] * 6, FASTER: [0.5, 0.55] * 6}), load_catalogue()))
    assert [one.levers for one in found] == [FASTER, FASTER]
    assert [(one.gain, one.regret) for one in found] == pytest.approx([(2.0, 0.0)] * 2)


def test_what_is_fast_in_the_known_half_alone_is_judged_by_the_other(survey_choice):
    """Even rounds choose it, in which it is twice as fast, and in the odd ones it is half as fast."""
    records = surveyed({DEFAULT: [1.0] * 12, FASTER: [2.0, 0.5] * 6})
    even, odd = survey_choice.judged(records, load_catalogue())
    assert (even.levers, even.gain) == (FASTER, pytest.approx(0.5))
    assert (odd.levers, odd.gain, odd.regret) == (DEFAULT, 1.0, 0.0)


def test_surveys_of_few_rounds_are_not_judged(survey_choice):
    assert list(survey_choice.judged(surveyed({DEFAULT: [1.0] * 3, FASTER: [0.5] * 3}), load_catalogue())) == []
