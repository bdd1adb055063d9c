"""What a Plan says of the risk of a choice."""

import pytest

from modak_deploy.optimiser.decision import _doubt
from modak_deploy.optimiser.knowledge import Comparison
from modak_deploy.performance.statistics import Interval


@pytest.mark.parametrize(
    ("low", "text"),
    [
        (1 / 1.004, "this interval includes 1"),
        (1 / 1.43, "one time in twenty it is over 43% slower"),
        (1 / 2.34, "one time in twenty it takes over 2.3 times as long"),
        (1 / 12, "one time in twenty it takes over 10 times as long"),
        (0.0, "one time in twenty it takes over 10 times as long"),
    ],
)
def test_a_risk_by_the_model_is_said_in_figures_that_mean_something(low: float, text: str) -> None:
    assert _doubt(Comparison(Interval(1.1, low, 2.0), "model", "predicted by the model")) == text


def test_of_what_was_measured_the_interval_is_enough() -> None:
    assert _doubt(Comparison(Interval(1.1, 0.5, 2.0), "measurement", "measured")) == "this interval includes 1"
