"""Which programs get the launcher, and what it is told to try in them."""

from datetime import UTC, datetime

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InfeasibleError
from modak_deploy.launch.config import SESSION_OPTIONS
from modak_deploy.launch.lever import all_levers
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.plan import Launch
from modak_deploy.optimiser import keep, make_plan
from modak_deploy.optimiser.launching import LIVE
from modak_deploy.optimiser.table import render
from modak_deploy.performance.records import Table, load_measurements

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

PYTORCH = {
    "deployment.application.framework": {"name": "pytorch"},
    "deployment.application.type": "ai_inference",
    "deployment.application.workload": {"model": "resnet50", "unit": "call", "units": 100},
    "facts.packages": {"torch": "2.13.0", "python": "3.11.2"},
}
JAX = {
    "deployment.application.framework": {"name": "jax"},
    "facts.packages": {"jax": "0.10.2", "python": "3.11.2"},
}
KEEPING = Launch(counts=False, compiled=True, numerics="relaxed", units=100)
EXACT = ["pytorch-keep-memory", "pytorch-channels-last", "pytorch-onednn-products", "pytorch-huge-pages",
         "pytorch-one-thread", "pytorch-compile-frozen", "pytorch-compile"]  # fmt: skip

TRIED = [name for name, lever in load_catalogue().levers.items() if lever.run.launch in LIVE]


@pytest.fixture
def launch(changed):
    """Return the function that makes the Plan of a PyTorch program with changes and returns its launcher."""

    def make(change=None, base="digits"):
        deployment, facts = changed(base, {**(PYTORCH if base == "digits" else {}), **(change or {})})
        return make_plan(deployment, facts, [], now=NOW, measurements=Table([])).chosen.launch

    return make


def test_exact_levers_alone_are_tried_where_the_request_asks_for_exact_numerics(launch):
    exact = launch({"deployment.request.numerics": "exact"})
    assert exact == Launch(trials="live", numerics="exact", candidates=EXACT, units=100)


def test_relaxed_numerics_permit_other_number_formats(launch):
    relaxed = launch()
    assert relaxed.numerics == "relaxed"
    names = ["pytorch-bf16-weights", "pytorch-keep-memory", "pytorch-channels-last", "pytorch-autocast-bf16"]
    assert relaxed.candidates[:4] == names


def test_what_was_measured_in_another_order_of_levers_is_known(changed):
    """The catalogue's order is that of trials, and records keep the one that it had when they were made."""
    deployment, facts = changed("digits", PYTORCH)
    node = facts.node
    record = {
        "schema": "modak.measurement/1", "type": "ai_inference", "framework": "pytorch",
        "workload": {"model": "resnet50", "unit": "call", "units": 100},
        "hardware": {"microarchitecture": node.microarchitecture, "cpu_model": node.cpu_model, "cores": node.cores},
        "provenance": {"source": "here", "date": "2026-01-01", "method": "invented"},
    }  # fmt: skip
    sets = {(): 20.0, ("pytorch-keep-memory", "pytorch-bf16-weights"): 4.0}
    records = [
        Measurement.model_validate({**record, "configuration": {"levers": list(names)}, "runs": [{"total": t + n / 100}
                                    for n in range(5)]})
        for names, t in sets.items()
    ]  # fmt: skip
    plan = make_plan(deployment, facts, [], now=NOW, measurements=Table(records))
    assert plan.chosen.levers == ["pytorch-bf16-weights", "pytorch-keep-memory"]
    assert plan.prediction.basis == "measurement"


def test_modules_are_converted_for_openvino_where_it_is_installed(launch):
    packages = {"torch": "2.13.0", "python": "3.11.2", "openvino": "2026.4.1"}
    there = {"facts.packages": packages, "deployment.request.numerics": "exact"}
    assert launch(there).candidates == [*EXACT[:4], "pytorch-openvino", *EXACT[4:]]
    assert "pytorch-openvino-bf16" in launch({"facts.packages": packages}).candidates
    old = {"facts.packages": {**packages, "openvino": "2024.6.0"}}
    assert not any("openvino" in name for name in launch(old).candidates)


def test_from_the_second_job_on_it_is_expected_what_others_gained(changed):
    packages = {
        "torch": "2.13.0",
        "python": "3.11.2",
        "openvino": "2026.4.1",
        "onnxruntime": "1.27.1",
        "onnxscript": "1",
    }
    change = {**PYTORCH, "facts.packages": packages, "deployment.application.workload.model": "new"}
    deployment, facts = changed("digits", {**change, "deployment.request.numerics": "exact"})
    shipped = load_measurements().all_records()
    node = facts.node
    job = Measurement.model_validate({
        "schema": "modak.measurement/1", "type": "ai_inference", "framework": "pytorch", "kind": "trial",
        "workload": {"model": "new", "unit": "call", "units": 100},
        "hardware": {"microarchitecture": node.microarchitecture, "cpu_model": node.cpu_model, "cores": node.cores},
        "provenance": {"source": "here", "date": "2026-01-01", "method": "invented"},
        "configuration": {"levers": []},
        "runs": [{"first": 1.0, "later": [1.0] * 5, "time": 1_770_000_000}],
    })  # fmt: skip
    first, second = (
        make_plan(deployment, facts, [], now=NOW, measurements=Table([*shipped, *own])) for own in ([], [job])
    )
    assert (first.chosen.launch.expected, first.chosen.launch.share) == ({}, 0.03)
    launch = second.chosen.launch
    assert first.chosen.launch.foreseen == launch.foreseen
    assert launch.foreseen["pytorch-openvino"] > launch.expected["pytorch-openvino"]
    assert "pytorch-channels-last" in launch.foreseen.keys() - launch.expected.keys(), "what costs nothing as well"
    assert (launch.levers, launch.share) == ([], 0.06)
    assert {"pytorch-openvino", "pytorch-onnxruntime"} <= launch.expected.keys() <= set(launch.candidates)
    assert all(gain > 1.1 for gain in launch.expected.values())
    assert "pytorch-openvino" in (told := " ".join(render(second).split())) and "may lose 20%" in told
    assert "may lose 20%" not in render(first)


@pytest.mark.parametrize("before", ["pytorch-channels-last", "pytorch-openvino"])
def test_levers_of_other_groups_exclude_each_other(changed, before):
    after = {"pytorch-channels-last": "pytorch-openvino", "pytorch-openvino": "pytorch-channels-last"}[before]
    packages = {"torch": "2.13.0", "python": "3.11.2", "openvino": "2026.4.1"}

    def plan(request):
        deployment, facts = changed("digits", {**PYTORCH, "facts.packages": packages, **request})
        return make_plan(deployment, facts, [], now=NOW, measurements=Table([]))

    chosen = plan({"deployment.request.require_levers": [before]}).chosen
    assert chosen.launch.levers == [before]
    with pytest.raises(InfeasibleError, match=f"{before}' excludes another required one of {after}"):
        plan({"deployment.request.require_levers": [before, after]})
    with pytest.raises(InfeasibleError, match="exclude each other"):
        plan({"deployment.request.configuration": {"levers": [before, after]}})


def test_onnxruntime_programs_have_their_own_levers(launch):
    change = {
        "deployment.application.framework": {"name": "onnxruntime"},
        "facts.packages": {"onnxruntime": "1.22.0"},
        "deployment.request.forbid_levers": ["onnxruntime-parallel"],
    }
    tried = launch(change).candidates
    assert "onnxruntime-graph-all" in tried and "onnxruntime-parallel" not in tried
    assert not any(name.startswith("pytorch") for name in tried)


KERAS = {
    "deployment.application.framework": {"name": "keras"},
    "deployment.application.type": "ai_training",
    "facts.packages": {"keras": "3.15.1", "tensorflow": "2.21.0", "python": "3.11.2"},
}


def test_keras_on_tensorflow_and_tensorflow_itself_have_levers_too(launch):
    exact = ["keras-plain-input", "keras-keep-memory"]
    assert launch({**KERAS, "deployment.request.numerics": "exact"}).candidates == [*exact, "keras-jit-compile"]
    both = ["keras-mixed-bfloat16", *exact, "keras-tensorflow-bf16", "keras-jit-compile"]
    assert launch(KERAS).candidates == both
    own = {**KERAS, "deployment.application.framework": {"name": "tensorflow"}}
    assert launch({**own, "deployment.request.numerics": "exact"}).candidates == [
        "tensorflow-keep-memory",
        "tensorflow-jit-compile",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"deployment.request.trials": "none"},
        {"deployment.job.ranks": 2},
        {"facts.packages": {"torch": "2.13.0", "python": "3.7.9"}},
        {"facts.packages": {"torch": "1.4.0"}},
        {"deployment.application.type": "hpc"},
        {**JAX, "deployment.request.trials": "none"},
        {**JAX, "deployment.job.ranks": 2},
    ],
    ids=str,
)
def test_other_programs_are_left_to_themselves(change, launch):
    assert launch(change) is None


@pytest.mark.parametrize(
    "change",
    [
        {"deployment.request.configuration": {"levers": []}},
        {"deployment.application.framework": {"name": "keras"}, "facts.packages": {"keras": "3.0", "jax": "0.5"}},
        {"deployment.request.forbid_levers": TRIED},
    ],
    ids=str,
)
def test_units_are_counted_where_nothing_can_be_tried(change, launch):
    counting = launch(change)
    assert (counting.levers, counting.trials, counting.candidates, counting.units) == ([], "none", [], 100)


def test_what_jax_compiles_is_kept_for_later_jobs(launch):
    assert launch(JAX) == launch({**JAX, "deployment.application.progress": r"step (\d+)"}) == KEEPING
    assert launch({**JAX, "deployment.request.configuration": {"levers": []}}) == KEEPING


def test_a_program_that_tells_its_progress_is_not_counted_as_well(launch):
    change = {"deployment.request.forbid_levers": TRIED}
    assert launch({**change, "deployment.application.progress": r"step (\d+)"}) is None


def test_a_program_without_a_framework_is_left_to_itself(launch):
    assert launch(base="cluster") is None


def test_a_required_lever_is_on_from_the_start_and_nothing_is_tried(launch):
    found = launch({"deployment.request.require_levers": ["pytorch-channels-last"]})
    assert found == Launch(levers=["pytorch-channels-last"], numerics="relaxed", units=100)


def test_units_that_the_launcher_does_not_count_are_not_told(launch):
    assert launch({"deployment.application.workload": {"model": "resnet50", "unit": "epoch", "units": 3}}).units is None


def test_trials_make_another_job_only_where_they_may_change_results(changed):
    def tag(change):
        return make_plan(*changed("digits", {**PYTORCH, **change}), [], now=NOW, measurements=Table([])).tag()

    exact, relaxed = ({"deployment.request.numerics": numerics} for numerics in ("exact", "relaxed"))
    none = {"deployment.request.trials": "none"}
    assert tag(exact) == tag({**exact, **none}) == tag({**relaxed, **none})
    assert tag(relaxed) != tag(exact)


def test_a_kept_plan_that_would_try_something_else_is_not_kept(changed):
    exact = {**PYTORCH, "deployment.request.numerics": "exact"}
    new = make_plan(*changed("digits", exact), [], now=NOW, measurements=Table([]))
    assert keep(new, new.model_copy(update={"created": "before"})).created == "before"
    other = new.chosen.launch.model_copy(update={"numerics": "relaxed"})
    tampered = new.model_copy(update={"chosen": new.chosen.model_copy(update={"launch": other})})
    assert keep(new, tampered) is new


def test_a_kept_plan_stays_whatever_is_left_to_try(changed):
    new = make_plan(*changed("digits", PYTORCH), [], now=NOW, measurements=Table([]))

    def kept(own, **launch):
        chosen = new.chosen.model_copy(update={"launch": new.chosen.launch.model_copy(update=launch)})
        old = new.model_copy(update={"created": "before", "chosen": chosen})
        found = keep(new, old, own=own)
        return found.chosen.launch if found.created == "before" else None

    # One's own tried what has since been found to be too slow for the wall time, and is no candidate any more.
    gone = [*new.chosen.launch.candidates, "keras-jit-compile"]
    assert kept(True, candidates=gone).candidates == gone
    assert kept(False, candidates=gone) is None
    fewer = kept(False, candidates=["pytorch-channels-last"], relaxed=[], gain=100.0, share=0.12)
    assert (fewer.candidates, fewer.gain, fewer.share) == (["pytorch-channels-last"], 1.0, 0.03)
    assert kept(False, expected={"pytorch-compile": 100.0}).expected == {}
    assert kept(True, expected={"pytorch-compile": 1.5}).expected == {"pytorch-compile": 1.5}
    assert kept(False, units=10**6) is None


def test_a_plan_that_tries_what_the_request_does_not_permit_is_refused(changed):
    plan = make_plan(*changed("digits", PYTORCH), [], now=NOW, measurements=Table([]))
    data = plan.model_dump(by_alias=True)
    data["request"]["trials"] = "none"
    with pytest.raises(ValueError, match="permits no trials"):
        type(plan).model_validate(data)


def test_the_catalogue_and_the_launcher_agree():
    table = {lever.name: lever for lever in all_levers()}
    levers = [lever for lever in load_catalogue().levers.values() if lever.launch is not None]
    live = {name for name, lever in table.items() if lever.live or lever.framework == "pytorch"}
    live.discard(SESSION_OPTIONS)  # of any lever with the effect "session"
    assert {lever.name for lever in levers} == {*live, "sklearn-sklearnex"}
    for lever in levers:
        other = table[lever.name]
        how = "either" if lever.name == "keras-mixed-bfloat16" else "live" if other.live else "start"
        assert (lever.numerics, lever.launch) == (other.numerics, how), lever.name
        assert list(lever.when.packages.values())[:1] == [other.versions], lever.name
    for framework in ("pytorch", "onnxruntime", "keras", "tensorflow"):
        order = [table[lever.name] for lever in levers if lever.name in live and lever.launch != "either"]
        order = [one for one in order if one.framework == framework]
        assert order == sorted(order, key=lambda one: (one.order, one.name))
    for lever in levers:
        for other in levers:
            if lever.name != other.name and lever.when.framework == other.when.framework:
                apart = table[lever.name].excludes(table[other.name])
                assert not apart or lever.excludes(other), f"{lever.name} and {other.name}"


SURVEYED = {"deployment.request.trials": "survey", "deployment.request.numerics": "exact"}


def test_a_survey_is_of_all_levers_also_of_those_that_are_on(changed, launch):
    assert launch(SURVEYED).trials == "survey"
    assert launch(SURVEYED).candidates == [name for name in EXACT if name != "pytorch-huge-pages"]
    plan = make_plan(*changed("digits", {**PYTORCH, **SURVEYED}), [], now=NOW, measurements=Table([]))
    assert "6 levers and their combinations will be measured in turns while it runs, in up to 300 units" in plan.reason
    assert "the job has 100 calls, so that not all may be" in plan.reason
    shown = render(plan)
    assert "surveys" in shown and "whatever it costs: pytorch-keep-memory" in " ".join(shown.split())
    exact = {**PYTORCH, "deployment.request.numerics": "exact"}
    assert plan.tag() != make_plan(*changed("digits", exact), [], now=NOW, measurements=Table([])).tag()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"deployment.job.ranks": 2}, "it is of one process, and the job has 2 ranks"),
        (
            {"deployment.application.framework": {"name": "jax"}, "facts.packages": {"jax": "0.6.0"}},
            "there are no levers that the launcher can switch",
        ),
        ({"deployment.request.configuration": {"levers": []}}, "the request names the one configuration to run"),
    ],
)
def test_where_there_can_be_no_survey_the_plan_says_so(changed, change, reason):
    plan = make_plan(*changed("digits", {**PYTORCH, **SURVEYED, **change}), [], now=NOW, measurements=Table([]))
    assert plan.chosen.launch is None or plan.chosen.launch.trials == "none"
    assert f"no survey is made: {reason}" in plan.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"deployment.application.workload": {"unit": "call", "units": 9}}, "the workload names no model"),
        ({"deployment.job.array": "0-3"}, "the job is an array"),
    ],
)
def test_where_nothing_of_a_survey_is_kept_the_plan_says_so(changed, change, reason):
    plan = make_plan(*changed("digits", {**PYTORCH, **SURVEYED, **change}), [], now=NOW, measurements=Table([]))
    assert f"nothing of it is kept for later Plans, for {reason}" in plan.reason
