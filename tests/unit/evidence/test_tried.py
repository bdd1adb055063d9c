"""What the report of a job says of its trials: what the program went on with in the end, and a search."""

import inspect

import pytest

from evidence_parts import TUNING, digits_plan, job_values, write_results
from modak_deploy.evidence import tried
from modak_deploy.evidence.report import read_job, report_of_jobs
from modak_deploy.launch import choice, prospects
from modak_deploy.model.trials import RestartCandidate, RestartPlan
from modak_deploy.optimiser.changes import only_trials

LEVER = "keras-mixed-bfloat16"


@pytest.fixture(scope="module")
def plan():
    return digits_plan(request={"numerics": "relaxed"})


def report_of(tmp_path, plan, **changes):
    return report_of_jobs([read_job(write_results(tmp_path / "x", plan, job_values(plan, **changes)))])


def summary_of(report, title):
    return next(part.summary for part in report.sections[0].parts if part.title == title)


def gains(report):
    return [figure.value for figure in report.sections[0].figures if figure.label == "Gain"]


def test_a_lever_that_was_given_up_after_the_trials_is_no_gain(tmp_path, plan):
    """A failure brings the default back, and the report called the job 1.66 times as fast all the same."""
    back = {"of": "Functional", "levers": [], "reason": "ValueError: of the lever's making"}
    report = report_of(tmp_path, plan, tuning={**TUNING, "settled": [*TUNING["settled"], back]})
    assert "modak kept the default, keras-tensorflow. It took 11.7 s" in report.summary
    assert gains(report) == ["1.00 \N{MULTIPLICATION SIGN}"]
    went_on = "The program went on with no lever: ValueError: of the lever's making."
    assert summary_of(report, "What was tried while it ran").endswith(went_on)


@pytest.mark.parametrize(
    "later",
    [
        {"reason": "there was nothing to try", "after_units": 90},
        {"reason": "nothing could be tried: a unit takes 0.5 s and trials may lose 0.1 s in this job"},
        {"reason": "nothing tried is faster", "after_units": 12},
    ],
)
def test_an_object_of_the_same_name_takes_nothing_back(tmp_path, plan, later):
    """A model that was evaluated after its training kept the default, and the report called the whole job that."""
    settled = [{**TUNING["settled"][0], "after_units": 40}, {"of": "Functional", "levers": [], **later}]
    report = report_of(tmp_path, plan, tuning={**TUNING, "settled": settled})
    assert f"went on with {LEVER}, 1.66 times as fast" in report.summary


def test_what_a_small_object_gained_is_no_gain_of_the_job(tmp_path, plan):
    """It was told of the whole job, of which it took a hundredth."""
    small = {"name": "inference: Head", "unit": "call", "units": 9, "seconds": 0.1, "steady": 0.01}
    settled = [
        {"of": "Functional", "levers": [], "reason": "nothing tried is faster"},
        {"of": "Head", "levers": ["keras-jit-compile"], "reason": "fastest", "gain": 9.0},
    ]
    report = report_of(tmp_path, plan, tuning={**TUNING, "counted": [*TUNING["counted"], small], "settled": settled})
    assert "modak kept the default, keras-tensorflow." in report.summary
    assert gains(report) == ["1.00 \N{MULTIPLICATION SIGN}"]
    assert "went on with keras-jit-compile: fastest" in summary_of(report, "What was tried while it ran")


def test_of_several_objects_the_one_with_the_most_time_counts(tmp_path, plan):
    small = {"name": "training: Head", "unit": "step", "units": 9, "seconds": 0.1, "steady": 0.01}
    settled = [*TUNING["settled"], {"of": "Head", "levers": ["keras-jit-compile"], "reason": "fastest", "gain": 9.0}]
    report = report_of(tmp_path, plan, tuning={**TUNING, "counted": [*TUNING["counted"], small], "settled": settled})
    assert f"went on with {LEVER}, 1.66 times as fast" in report.summary


def test_a_round_of_a_search_is_no_run_of_the_program(tmp_path, plan):
    """It was told as a job that went on with the fastest, though nothing ran after the trials."""
    own = plan.chosen.name
    restart = RestartPlan(
        signal="output",
        budget=60,
        only=True,
        rule="x",
        candidates=[RestartCandidate(name=own), RestartCandidate(name="b")],
    )
    search = only_trials(plan, restart, name="digits-tune-0", wall_time=90)
    trials = [{"name": own, "state": "measured", "steady": 0.1}, {"name": "b", "state": "measured", "steady": 0.05}]
    found = {"trials": trials, "chosen": "b", "gain": 2.0, "seconds": 11.0, "reason": "fastest of all that was tried"}
    report = report_of(tmp_path, search, restart=found, tuning=None)
    start = f"The job tried what may be faster than {own}, for a search; the program itself did not run. It took 11.7 s"
    assert report.summary.startswith(start)
    assert summary_of(report, "What was tried before the run").endswith("in 11 s. The program itself did not run.")
    assert gains(report) == ["unknown"]


def test_reasons_are_those_of_the_launcher():
    written = inspect.getsource(choice) + inspect.getsource(prospects)
    assert all(reason in written for reason in (*tried._NOTHING, tried._NOT_FASTER))
