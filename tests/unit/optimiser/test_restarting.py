"""Which candidates a Plan lets a job try before its run, at what cost, and why it lets none."""

from datetime import UTC, datetime

import pytest

from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.optimiser import keep, make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.performance.records import Table

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HPC = {
    "deployment.application.progress": r"step (\d+)",
    "deployment.application.framework": None,
    "deployment.application.type": "hpc",
    "deployment.application.workload": {"model": "my-solver", "unit": "iteration", "units": 100},
    "deployment.request": {"trials": {"budget": 60}, "numerics": "exact"},
    "facts.packages": {},
    "facts.libraries": ["libtcmalloc_minimal.so.4"],
}

IN_BASE = {"deployment.application.framework"}


@pytest.fixture
def make(changed):
    """Return the function that makes the Plan of a program without a framework, with changes."""

    def plan(change=None):
        values = {**HPC, **(change or {})}
        present = {key: value for key, value in values.items() if value is not None or key in IN_BASE}
        return make_plan(*changed("digits", present), [], now=NOW, measurements=Table([]))

    return plan


def names(plan):
    return [candidate.name for candidate in plan.restart.candidates]


def test_what_a_new_process_can_change_is_tried(make):
    plan = make()
    assert names(plan)[0] == plan.chosen.name == "as-is"
    assert {"tcmalloc", "one-thread", "omp-close"} <= set(names(plan))
    assert (plan.restart.signal, plan.restart.units, plan.restart.budget) == ("output", 100, 60)
    assert "will be tried before the run, each in a new process, for at most 60 s" in plan.reason
    assert "tries first" in render(plan)
    assert "  predicted  unknown\n" in render(plan)
    evidence = {ranked.candidate.name: ranked.prediction.evidence for ranked in plan.alternatives}
    assert evidence["tcmalloc"].endswith("it will be tried before the run, in a new process")


def test_nothing_is_tried_without_permission(make):
    for trials in ("live", "none"):
        plan = make({"deployment.request": {"trials": trials, "numerics": "exact"}})
        assert plan.restart is None and "new process" not in plan.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"deployment.application.progress": None}, "give application.progress"),
        ({"deployment.request": {"trials": {"budget": "5%"}}, "deployment.job.wall_time": None}, "give job.wall_time"),
        ({"deployment.request": {"trials": {"budget": "5%"}}, "deployment.job.wall_time": 60}, "too short"),
        ({"deployment.request": {"trials": {"budget": 60}}, "deployment.job.wall_time": 20}, "too short"),
        ({"deployment.request": {"trials": {"budget": 60}, "configuration": {"levers": []}}}, "names the one to run"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_plan_says_why_nothing_can_be_tried(make, change, reason):
    plan = make(change)
    assert plan.restart is None
    assert "nothing is tried in new processes" in plan.reason and reason in plan.reason


def test_a_share_is_one_of_the_wall_time(make):
    plan = make({"deployment.request": {"trials": {"budget": "5%"}}, "deployment.job.wall_time": 3600})
    assert (plan.restart.budget, plan.restart.share) == (180, 0.05)


def test_arguments_for_a_short_run_are_timed_as_a_whole(make):
    plan = make({"deployment.application.progress": None, "deployment.application.trial": ["--steps", "3"]})
    assert (plan.restart.signal, plan.restart.units) == ("whole", None)


def test_the_launcher_counts_where_it_can(make):
    change = {
        "deployment.application.progress": None,
        "deployment.application.framework": {"name": "pytorch"},
        "deployment.application.type": "ai_inference",
        "deployment.application.workload": {"model": "net", "unit": "call", "units": 100},
        "facts.packages": {"torch": "2.13.0", "python": "3.11.2"},
    }
    plan = make({**change, "deployment.request": {"trials": {"budget": 60, "live": False}}})
    assert plan.restart.signal == "launcher"
    assert plan.chosen.launch.trials == "none" and not plan.chosen.launch.levers
    assert not any("pytorch-channels-last" in name for name in names(plan))  # these are tried live


def test_trials_do_not_make_another_job(make):
    without = {"deployment.request": {"trials": "live", "numerics": "exact"}}
    assert make().tag() == make(without).tag()
    assert make({"deployment.application.progress": None, **without}).tag() != make(without).tag()


def test_a_kept_plan_of_others_brings_no_environment_of_its_own(make):
    new = make()
    other = new.restart.candidates[1].model_copy(update={"environment": {"LD_PRELOAD": "/tmp/x.so"}})
    restart = new.restart.model_copy(update={"candidates": [new.restart.candidates[0], other]})
    tampered = new.model_copy(update={"restart": restart, "created": "before"})
    kept = keep(new, tampered, own=False)
    assert (kept.created, kept.restart) == ("before", new.restart)


INFERENCE = {
    "deployment.application.progress": r"call (\d+)",
    "deployment.application.arguments": ["--calls", "50"],
    "deployment.application.engines": {
        "onnxruntime": {"arguments": ["--engine", "onnxruntime"], "environment": {"LOG": "3"}},
        "openvino": {"arguments": ["--engine", "openvino"]},
        "tvm": {"arguments": ["--engine", "tvm"]},
    },
    "deployment.application.workload": {"model": "own-net", "unit": "call", "units": 50, "batch": 1},
    "deployment.request": {"trials": {"budget": 60, "live": False}, "numerics": "exact"},
    "facts.packages": {"torch": "2.13.0", "onnxruntime": "1.22.0", "openvino": "2026.4.1", "apache-tvm": "0.27.0"},
    "facts.libraries": [],
}


def inference(changed, change=None, records=()):
    values = {**INFERENCE, **(change or {})}
    base = changed("hit", {key: value for key, value in values.items() if value is not None})
    return make_plan(*base, [], now=NOW, measurements=Table(list(records)))


def test_engines_are_tried_first_each_with_its_own_arguments(changed):
    plan = inference(changed)
    assert plan.chosen.engine is None
    tried = {candidate.engine: candidate for candidate in plan.restart.candidates}
    assert [candidate.engine for candidate in plan.restart.candidates[1:4]] == ["onnxruntime", "openvino", "tvm"]
    assert tried["onnxruntime"].arguments == ["--engine", "onnxruntime"] and tried["onnxruntime"].replaced == 0
    assert tried["onnxruntime"].environment["LOG"] == "3"
    evidence = {ranked.candidate.name: ranked.prediction.evidence for ranked in plan.alternatives}
    assert evidence["openvino"].endswith("it will be tried before the run, in a new process")


def test_from_an_engine_that_was_measured_others_replace_its_arguments(changed):
    records = [timed("onnxruntime", 0.01), timed(None, 0.02)]
    plan = inference(changed, records=records)
    assert plan.chosen.engine == "onnxruntime" and plan.prediction.basis == "measurement"
    tried = {candidate.engine: candidate for candidate in plan.restart.candidates}
    assert tried["tvm"].arguments == ["--engine", "tvm"] and tried["tvm"].replaced == 2
    assert tried["tvm"].unset == ["LOG"]
    assert None not in tried  # measured, and slower


def test_an_environment_of_the_application_comes_back_without_the_engine(changed):
    change = {"deployment.application.environment": {"LOG": "1"}}
    plan = inference(changed, change, [timed("onnxruntime", 0.01), timed(None, 0.02)])
    tried = {candidate.engine: candidate for candidate in plan.restart.candidates}
    assert tried["tvm"].environment["LOG"] == "1" and tried["tvm"].unset == []


def test_engines_in_which_nothing_counts_are_named(changed):
    plan = inference(changed, {"deployment.application.progress": None})
    assert plan.restart is not None and plan.restart.signal == "launcher"
    assert {candidate.engine for candidate in plan.restart.candidates} == {None, "onnxruntime"}
    assert "openvino, tvm cannot be tried" in plan.reason and "application.progress" in plan.reason


@pytest.mark.parametrize("best", ["onnxruntime", "openvino", "tvm", None])
def test_the_measured_best_engine_is_chosen(changed, best):
    engines = [None, "onnxruntime", "openvino", "tvm"]
    records = [timed(engine, 0.01 if engine == best else 0.02 + 0.001 * i) for i, engine in enumerate(engines)]
    plan = inference(changed, records=records)
    assert plan.chosen.engine == best and plan.prediction.basis == "measurement"
    assert plan.reason


def timed(engine, seconds):
    """Return what modak convert --record writes of an engine."""
    return Measurement(
        type="ai_inference",
        framework="pytorch",
        workload=Workload(model="own-net", unit="call", units=1, samples=1, batch=1),
        software={"torch": "2.13.0"},
        hardware=Hardware(microarchitecture="zen", cores=16),
        configuration=Configuration(framework=engine),
        runs=[Run(total=0.5 + 2 * s, first=s, later=[s]) for s in [seconds * (1 + 0.001 * i) for i in range(9)]],
        provenance=Provenance(source="modak convert", date="2026-01-01", method="interleaved"),
    )
