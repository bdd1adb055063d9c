"""What ended with an error, or had another result, in trials before a run: no later job tries it again."""

import pytest

from modak_deploy.model.deployment import Deployment
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table
from tried_parts import DEPLOYMENT, FACTS, LAST, NOW

RATED = {"state": "measured", "start": 1.0, "units": 9, "steady": 0.5, "times": [0.5, 0.5, 0.5]}


def plan(measurements=()):
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    values["request"]["trials"] = {"budget": 60}
    deployment = Deployment.model_validate(values)
    return make_plan(deployment, FACTS, [], now=NOW, measurements=Table(list(measurements)))


def names(made):
    return [candidate.name for candidate in made.restart.candidates]


@pytest.mark.parametrize("live", [[], [LAST]], ids=["alone", "with live trials"])
@pytest.mark.parametrize(
    ("trial", "again"),
    [
        ({"state": "failed", "exit_code": 1}, False),
        ({"state": "different", "exit_code": 0}, False),
        ({"state": "failed", "exit_code": 137}, True),
        ({"state": "failed", "reason": "its memory grew to 9999 MiB"}, True),
        ({"state": "unusable"}, True),
        ({"state": "stopped"}, True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_failed_is_not_tried_again(records, trial, again, live):
    made = plan()
    default, other = made.restart.candidates[:2]
    trials = [{**RATED, "name": default.name}, {**trial, "name": other.name}]
    restart = {"trials": trials, "chosen": default.name, "levers": default.levers, "seconds": 5.0}
    found = records(live, made=made, restart=restart)
    assert found[0].failed == (None if again else other.levers)
    assert (other.name in names(plan(found))) is again


def test_levers_of_the_default_and_of_no_candidate_are_left_alone(records):
    made = plan()
    default = made.restart.candidates[0]
    failed = {"state": "failed", "exit_code": 1}
    trials = [{**RATED, "name": default.name}, {**failed, "name": default.name}, {**failed, "name": "jemalloc+numactl"}]
    restart = {"trials": trials, "chosen": default.name, "levers": default.levers, "seconds": 5.0}
    assert {tuple(record.failed or ()) for record in records([], made=made, restart=restart)} == {()}


@pytest.mark.parametrize("state", ["failed", "different"])
def test_where_the_default_failed_in_a_later_turn_nothing_is_said_of_others(records, state):
    made = plan()
    default, other = made.restart.candidates[:2]
    failed = {"state": "failed", "exit_code": 1}
    later = {"state": state, "exit_code": 1 if state == "failed" else 0, "round": 2}
    trials = [{**RATED, "name": default.name}, {**failed, "name": other.name}, {**later, "name": default.name}]
    restart = {"trials": trials, "chosen": default.name, "levers": default.levers, "seconds": 5.0}
    assert records([], made=made, restart=restart)[0].failed is None
