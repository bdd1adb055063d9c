"""Times at the ends of what is possible, which a program or a file may tell: the Plan can be read, and shown."""

import pytest
from pydantic import ValidationError

from modak_deploy.model.measurement import Run
from modak_deploy.model.plan import Gain, Plan, Prediction
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.table import WIDTH, render
from modak_deploy.performance.records import Table
from tried_parts import DEPLOYMENT, FACTS, NOW, plan


def test_units_that_are_the_whole_leave_no_time_before_them(records):
    """0.2 + (0.1 + 0.2) is 0.5, and 0.5 - 0.2 - (0.1 + 0.2) is less than 0: such a Plan could not be read again."""
    (base,) = records([])
    run = Run(total=0.5, first=0.2, later=[0.1, 0.2])
    assert run.start == 0
    made = plan(Table([base.model_copy(update={"runs": [run, run]})]))
    assert made.prediction.start == 0
    assert Plan.model_validate_json(made.to_json()) == made


@pytest.mark.parametrize("values", [{"total": 5e-324}, {"total": 1.0, "first": 1e-300}, {"later": [1e-310]}])
def test_a_time_that_vanishes_when_it_is_scaled_is_none(values):
    with pytest.raises(ValidationError):
        Run.model_validate(values)


def test_the_shortest_and_the_longest_times_make_a_plan(records):
    """Of units of 10^18 samples each, for work of one sample: with shorter times nothing would be left."""
    (base,) = records([])
    runs = [Run(total=2e-15, first=1e-15, later=[1e-15]), Run(total=3e11, first=1e-15, later=[2.9e11])]
    many = base.workload.model_copy(update={"samples": 10**18})
    extreme = base.model_copy(update={"runs": runs, "workload": many})
    workload = DEPLOYMENT.application.workload.model_copy(update={"samples": 1})
    application = DEPLOYMENT.application.model_copy(update={"workload": workload})
    deployment = DEPLOYMENT.model_copy(update={"application": application})
    made = make_plan(deployment, FACTS, [], now=NOW, measurements=Table([base, extreme]))
    assert Plan.model_validate_json(made.to_json()) == made and render(made)


def test_a_gain_of_many_digits_leaves_room_for_names():
    made = plan()
    wild = Prediction(gain=Gain(ratio=1e60, low=1e50, high=1e90), basis="rule", evidence="it was measured elsewhere")
    others = [made.alternatives[0].model_copy(update={"prediction": wild}), *made.alternatives[1:]]
    lines = render(made.model_copy(update={"alternatives": others})).splitlines()
    names = [line for line in lines if others[0].candidate.name[:8] in line]
    assert names and all(len(line) < 2 * WIDTH for line in names)
