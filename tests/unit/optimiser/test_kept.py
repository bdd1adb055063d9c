"""Levers that a Plan has tried where an earlier job has kept what makes them ready."""

from datetime import UTC, datetime

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.launch.frameworks.pytorch.kinds import TorchLever
from modak_deploy.launch.lever import all_levers
from modak_deploy.model.measurement import Measurement
from modak_deploy.optimiser import keep, make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.performance.records import Table

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OPENVINO, ONNXRUNTIME, MEMORY = "pytorch-openvino", "pytorch-onnxruntime", "pytorch-keep-memory"
PACKAGES = {
    "torch": "2.13.0",
    "python": "3.11.2",
    "openvino": "2026.4.1",
    "onnx": "1.21.0",
    "onnxscript": "0.7.0",
    "onnxruntime": "1.31.0",
}
ONCE = {(): (0.03, 0.025), (OPENVINO,): (0.9, 0.0145), (ONNXRUNTIME,): (7.6, 0.0098)}
"""Seconds of the first and of each later call of SqueezeNet, one image each, with sets of levers, on an AMD EPYC."""


@pytest.fixture
def squeezenet(changed):
    """Return the Plan of a second job of SqueezeNet with so many calls, by what the first has tried in eight blocks.

    Sets of levers that are named ``apart`` were tried in another job.
    """

    def make(units, once, apart=(), **request):
        workload = {"model": "squeezenet", "unit": "call", "units": units}
        deployment, facts = changed(
            "digits",
            {
                "deployment.application.framework": {"name": "pytorch"},
                "deployment.application.type": "ai_inference",
                "deployment.application.workload": workload,
                "facts.packages": PACKAGES,
                **{f"deployment.request.{key}": value for key, value in {"numerics": "exact", **request}.items()},
            },
        )
        node = facts.node
        record = {
            "schema": "modak.measurement/1", "type": "ai_inference", "framework": "pytorch", "kind": "trial",
            "workload": workload,
            "hardware": {"microarchitecture": node.microarchitecture, "cpu_model": node.cpu_model, "cores": node.cores},
            "provenance": {"source": "here", "date": "2026-01-01", "method": "invented"},
        }  # fmt: skip
        records = [
            Measurement.model_validate({**record, "configuration": {"levers": list(names)}, "runs": [
                {"total": 6 + first + later, "first": first, "later": [later * (1 + n / 1000)],
                 "block": n, "time": 2 if names in apart else 1} for n in range(8)]})
            for names, (first, later) in once.items()
        ]  # fmt: skip
        return make_plan(deployment, facts, [], now=NOW, measurements=Table(records))

    return make


@pytest.mark.parametrize(("units", "chosen"), [(1000, OPENVINO), (100_000, ONNXRUNTIME)])
def test_what_was_faster_and_too_dear_is_tried_where_it_was_kept(squeezenet, units, chosen):
    plan = squeezenet(units, ONCE)
    launch = plan.chosen.launch
    assert plan.chosen.levers == [chosen]
    assert launch.kept == ([ONNXRUNTIME] if chosen == OPENVINO else [])
    assert (ONNXRUNTIME in launch.candidates) is (chosen == OPENVINO)
    assert OPENVINO not in launch.candidates
    assert ("pytorch-onnxruntime will be tried where an earlier job has kept" in plan.reason) is bool(launch.kept)
    assert ("pytorch-onnxruntime (if kept)" in " ".join(render(plan).split())) is bool(launch.kept)


@pytest.mark.parametrize(
    ("once", "options"),
    [
        ({**ONCE, (ONNXRUNTIME,): (7.6, 0.0144)}, {}),
        ({(): ONCE[()], (OPENVINO,): ONCE[(OPENVINO,)], (MEMORY, ONNXRUNTIME): (7.6, 0.0098)}, {}),
        (ONCE, {"apart": [(ONNXRUNTIME,)]}),
        (ONCE, {"forbid_levers": [ONNXRUNTIME]}),
        (ONCE, {"trials": "none"}),
        (ONCE, {"trials": "survey"}),
        ({(): ONCE[()], ("pytorch-compile-frozen",): (40.0, 0.009)}, {}),
    ],
    ids=["not faster", "beside other levers", "in another job", "forbidden", "no trials", "survey", "not kept"],
)
def test_what_was_tried_is_not_tried_again_for_what_was_kept(squeezenet, once, options):
    assert squeezenet(1000, once, **options).chosen.launch.kept == []


def test_what_gains_beside_what_stays_on_is_tried_where_it_was_kept(squeezenet):
    once = {(): (0.03, 0.025), (MEMORY,): (0.03, 0.02), (MEMORY, ONNXRUNTIME): (7.6, 0.0098), (ONNXRUNTIME,): (8, 0.01)}
    plan = squeezenet(300, once)
    assert plan.chosen.levers == [MEMORY]
    assert plan.chosen.launch.kept == [ONNXRUNTIME]


def test_plan_of_another_that_leaves_the_word_out_gets_it_back(squeezenet):
    """Or it would have each job export what makes its units faster and the job longer."""
    plan = squeezenet(1000, ONCE)
    launch = plan.chosen.launch.model_copy(update={"kept": []})
    other = plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"launch": launch})})
    assert keep(plan, other, own=False).chosen.launch.kept == [ONNXRUNTIME]


def test_levers_whose_work_is_kept_are_those_of_the_catalogue():
    keeping = {lever.name for lever in all_levers() if lever.keeps}
    assert keeping == {name for name, lever in load_catalogue().levers.items() if lever.kept}
    assert keeping == {
        lever.name
        for lever in all_levers()
        if isinstance(lever, TorchLever) and type(lever).content_kind is not TorchLever.content_kind
    }
