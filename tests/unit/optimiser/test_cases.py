"""Each case changes one thing of a base document and says what the Plan must then be."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import errors
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.table import render

DATA = Path(__file__).parents[2] / "data" / "optimiser"
CASES = yaml.safe_load((DATA / "cases.yaml").read_text())
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def plan_of(changed, measured):
    """Return the function that makes a case's Plan."""

    def function(case: dict[str, Any]) -> Plan:
        return make_plan(*changed(case["base"], case.get("change", {})), [], now=NOW, measurements=measured)

    return function


def check(plan: Plan, expect: dict[str, Any]) -> None:
    for key, value in expect.items():
        match key:
            case "chosen":
                assert plan.chosen.name == value, plan.reason
            case "default" | "gain" | "scheduler":
                assert getattr(plan, key) == value
            case "basis":
                assert plan.prediction.basis == value
            case "argv" | "environment" | "launcher" | "preload" | "compiler" | "runtime":
                assert getattr(plan.chosen, key) == value
            case "alternatives":
                assert [ranked.candidate.name for ranked in plan.alternatives] == value
            case "image":
                assert plan.chosen.image is not None and plan.chosen.image.entry == value
            case "reference":
                assert plan.chosen.image is not None and plan.chosen.image.reference == value
            case "gains":
                gains = {ranked.candidate.name: ranked.prediction.gain for ranked in plan.alternatives}
                assert all(low <= gains[name].ratio <= high for name, (low, high) in value.items()), gains
            case "resources":
                assert plan.chosen.resources.model_dump(include=set(value)) == value
            case "reason":
                assert all(str(words) in plan.reason for words in value), plan.reason
            case "evidence":
                assert all(words in plan.prediction.evidence for words in value), plan.prediction.evidence
            case "seconds":
                assert plan.prediction.seconds is not None
                assert value[0] <= plan.prediction.seconds <= value[1]
            case "rejected":
                reasons = {rejected.name: rejected.reason for rejected in plan.rejected}
                for name, words in value.items():
                    assert words in reasons[name]
            case "alternative":
                bases = {ranked.candidate.name: ranked.prediction.basis for ranked in plan.alternatives}
                assert value.items() <= bases.items()
            case _:
                raise KeyError(key)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case, plan_of):
    if "error" not in case:
        plan = plan_of(case)
        check(plan, case["expect"])
        for table in (render(plan), render(plan, explain=True)):
            assert max(map(len, table.splitlines())) <= 100
        return
    ((kind, words),) = case["error"].items()
    with pytest.raises(getattr(errors, kind)) as caught:
        plan_of(case)
    message = str(caught.value)
    assert all(str(word) in message for word in words), message


def test_names_are_unique():
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
