"""What a Plan says of the risk of a choice, and of limits that nobody can compare it with."""

from datetime import UTC, datetime
from typing import Any

import pytest

from modak_deploy.errors import InfeasibleError
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.decision import _doubt
from modak_deploy.optimiser.knowledge import Comparison
from modak_deploy.performance.records import Table
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


@pytest.fixture
def default_alone(measured: Table) -> Table:
    """What was measured, where only the default was measured here and all else on another processor."""
    records: list[Any] = []
    for record in measured.of_workload("mnist-cnn"):
        hardware = record.hardware.model_copy(update={"cpu_model": "Another CPU"})
        is_default = getattr(record, "runs", None) and record.configuration.levers == ["keras-tensorflow"]
        records += [record.model_copy(update={"hardware": hardware}), *([record] if is_default else [])]
    return Table(records)


def planned(changed: Any, measurements: Table, **change: Any) -> Plan:
    deployment, facts = changed("digits", {key.replace("__", "."): value for key, value in change.items()})
    return make_plan(deployment, facts, [], now=datetime(2026, 1, 2, tzinfo=UTC), measurements=measurements)


def test_seconds_that_are_carried_over_keep_no_limit(changed: Any, default_alone: Table) -> None:
    plan = planned(changed, default_alone, deployment__request__deadline=20)
    bases = {ranked.candidate.name: ranked.prediction for ranked in plan.alternatives}
    carried = bases["keras-tensorflow+keras-mixed-bfloat16"]
    assert plan.prediction.basis == "measurement" and carried.basis == "rule" and carried.seconds is not None
    with pytest.raises(
        InfeasibleError, match=r"over the deadline of 1 s; .* others, such as .*is not known well enough"
    ):
        planned(changed, default_alone, deployment__request__deadline=1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deployment__request__deadline": 60}, "whether the deadline of 60 s suffices, since its seconds are only"),
        ({"deployment__request__budget": 0.1}, "whether the budget of 0.1 suffices, since its seconds are only"),
        (
            {"deployment__request__deadline": 60, "deployment__application__workload": {"units": 3}},
            "whether the deadline of 60 s suffices, since no time was measured or modelled",
        ),
        ({"deployment__request__deadline": 60, "deployment__job__wall_time": 60}, None),
    ],
)
def test_a_limit_that_no_time_can_be_compared_with(
    changed: Any, measured: Table, change: Any, text: str | None
) -> None:
    plan = planned(changed, measured, facts__node__cpu_model="Other", facts__node__cores=64, **change)
    assert plan.prediction.basis in ("none", "modelled", "rule")
    assert text in plan.reason if text else "not known whether" not in plan.reason
