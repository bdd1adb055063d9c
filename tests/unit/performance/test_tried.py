"""What a job tried while it ran becomes measurements, and the next Plan chooses by them."""

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.evidence.comparing import comparisons
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.performance.listing import seconds_of
from modak_deploy.performance.records import Table, to_line
from modak_deploy.performance.scaletable import series_of
from tried_parts import COUNTED, DEPLOYMENT, FACTS, LAST, NOW, plan

BOTH = {
    "of": "Net", "levers": ["pytorch-channels-last", "pytorch-autocast-bf16"], "result": "faster", "kept": True,
    "times": [0.25, 0.26, 0.24], "rival": ["pytorch-channels-last"], "rival_times": [0.5, 0.51, 0.49],
}  # fmt: skip
WRONG = {**LAST, "levers": ["pytorch-bf16-weights"], "failed": True, "times": [0.01, 0.01, 0.01]}
OTHER = {**LAST, "of": "Other", "levers": ["pytorch-one-thread"], "times": [0.001] * 3}


def levers(found):
    return [record.configuration.levers for record in found]


def test_each_configuration_becomes_a_measurement(records):
    found = records([LAST, BOTH])
    last, both = ["pytorch-channels-last"], ["pytorch-channels-last", "pytorch-autocast-bf16"]
    assert levers(found) == [last, [], both]
    assert {record.kind for record in found} == {"trial"}
    run = found[0].runs[0]
    assert run.start == pytest.approx(8.0)
    assert (run.first, run.later) == (pytest.approx(1.0), [0.5])
    assert [run.block for run in found[1].runs] == [run.block for run in found[0].runs[:4]]
    assert [Measurement.model_validate_json(to_line(record)) for record in found] == found


def test_what_an_earlier_job_had_kept_is_no_measurement(records):
    """It took less than it takes to be made, and Plans would take ratios along both for those of the levers."""
    made = plan()
    launch = made.chosen.launch.model_copy(update={"kept": ["pytorch-autocast-bf16"]})
    made = made.model_copy(update={"chosen": made.chosen.model_copy(update={"launch": launch})})
    assert levers(records([LAST, BOTH], made=made)) == [["pytorch-channels-last"], []]


def test_trials_before_the_run_are_no_part_of_the_start(records):
    alone, after = records([LAST]), records([LAST], number=2, seconds=75.0, restart={"seconds": 15.0})
    assert [run.start for record in after for run in record.runs] == pytest.approx(
        [run.start for record in alone for run in record.runs]
    )


def test_the_parts_of_a_trial_are_no_runs_of_their_own(records):
    """Within one process they agree by more than processes do: two trials of each prove no small gain."""
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    values["request"]["trials"] = {"budget": 60}
    made = make_plan(Deployment.model_validate(values), FACTS, [], now=NOW, measurements=Table([]))
    default, other = made.restart.candidates[:2]
    rated = {"state": "measured", "start": 1.0, "units": 9}
    trials = [
        {**rated, "name": candidate.name, "steady": steady, "times": [steady * 0.99, steady, steady * 1.01]}
        for candidate, steady in ((default, 0.50), (other, 0.48), (other, 0.47), (default, 0.51))
    ]
    restart = {"trials": trials, "chosen": other.name, "levers": other.levers, "seconds": 5.0}
    first, second = records([], made=made, restart=restart)[:2]
    assert ([len(record.runs) for record in (first, second)]) == [2, 2]


def test_of_a_trial_that_ended_at_once_the_whole_is_recorded(records):
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    values["application"]["progress"] = "step ([0-9]+)"
    values["request"]["trials"] = {"budget": 60}
    made = make_plan(Deployment.model_validate(values), FACTS, [], now=NOW, measurements=Table([]))
    default, other = made.restart.candidates[:2]
    at_once = {"name": other.name, "state": "measured", "whole": True, "start": 0}
    trials = [{"name": default.name, "state": "measured", "start": 1.0, "steady": 0.5, "units": 9},
              {**at_once, "steady": 0.01, "units": 100}]  # fmt: skip
    restart = {"trials": trials, "chosen": other.name, "levers": other.levers, "seconds": 5.0}
    rated, whole = records([], made=made, restart=restart)[:2]
    assert levers([rated, whole]) == [default.levers, other.levers]
    assert (rated.runs[0].later, whole.runs[0].later, whole.runs[0].total) == ([0.5], [], 1.0)
    rate = {**at_once, "whole": False, "steady": 0.02, "units": 100}
    rated, again = records([], made=made, number=2, restart={**restart, "trials": [*trials, rate]})[:2]
    assert [run.later for run in again.runs] == [[0.02]], "where there is a rate, it counts alone"


def test_what_was_wrong_is_never_recorded(records):
    assert levers(records([LAST, WRONG])) == [["pytorch-channels-last"], []]
    late = ["pytorch-channels-last: the result differs by 0.5, more than 0.0001"]
    assert levers(records([LAST, BOTH], number=2, not_used=late)) == [
        [],
        ["pytorch-channels-last", "pytorch-autocast-bf16"],
    ]
    assert levers(records([WRONG], number=3)) == [[]]


def test_what_was_not_tried_on_one_object_is_recorded_where_it_was_on_another(records):
    elsewhere = ["pytorch-channels-last: not tried: the program ended before"]
    assert levers(records([LAST], not_used=elsewhere)) == [["pytorch-channels-last"], []]


def test_what_was_tried_on_another_object_is_not_recorded(records):
    assert levers(records([OTHER, LAST])) == [["pytorch-channels-last"], []]


@pytest.mark.parametrize(
    ("counter", "of"),
    [
        ("inference: Net", "Net"),
        ("training: Net", "Net"),
        ("keras: train", "keras: train of Net"),
        ("tensorflow: step", "step"),
        ("inference: onnxruntime", "onnxruntime"),
    ],
)
def test_the_counter_and_the_trials_of_one_object_are_known_as_such(records, counter, of):
    """As each adapter names them."""
    tuning = {"processes": 1, "counted": [{**COUNTED, "name": counter}], "trials": [{**LAST, "of": of}], "levers": []}
    assert levers(records([LAST], number=70, tuning=tuning)) == [["pytorch-channels-last"], []]


def test_trials_of_two_models_with_one_counter_are_not_recorded(records):
    trials = [{**LAST, "of": f"keras: train of {name}"} for name in ("Net", "Other")]
    tuning = {"processes": 1, "counted": [{**COUNTED, "name": "keras: train"}], "trials": trials, "levers": []}
    assert not any(record.kind == "trial" for record in records([LAST], number=80, tuning=tuning))


def test_the_next_plan_chooses_the_fastest(records):
    before, table = plan(), Table(records([LAST, BOTH, WRONG]))
    after = plan(table)
    assert before.chosen.name == "as-is" and before.chosen.launch.trials == "live"
    assert "will be tried while it runs" in before.reason
    possible = {ranked.candidate.name: ranked.prediction for ranked in before.alternatives}
    assert possible["pytorch-channels-last"].evidence.endswith("it will be tried while the job runs")
    assert after.chosen.name == "pytorch-channels-last+pytorch-autocast-bf16"
    assert after.chosen.launch.levers == after.chosen.levers
    assert after.prediction.basis == "trial"
    assert after.prediction.seconds == pytest.approx(8.0 + 100 * 0.25, rel=0.05)
    assert after.gain.ratio == pytest.approx(108 / 33, rel=0.05)
    assert "tried here while a job ran" in after.reason
    assert " trial" in render(after)
    long = after.model_copy(update={"chosen": after.chosen.model_copy(update={"name": "+".join(["lever"] * 20)})})
    assert "\n* lever+" in render(long)
    assert after.tag() != before.tag()


def test_the_next_job_goes_on_with_what_was_never_tried(records):
    first = plan().chosen.launch
    then = plan(Table(records([LAST, BOTH], number=7))).chosen.launch
    assert set(first.candidates) - set(then.candidates) == {"pytorch-channels-last", "pytorch-autocast-bf16"}
    assert {"pytorch-compile", "pytorch-bf16-weights"} <= set(then.candidates)  # the second in autocast's place
    assert (first.gain, first.share, then.share) == (1.0, 0.03, 0.06)
    assert 2.5 < then.gain < 108 / 33


def test_what_failed_is_not_tried_again(records):
    failed = {**WRONG, "kept": False, "times": [], "rival_times": []}
    # A job in which all that was tried failed has a measurement of the whole alone.
    for trials, number in (([LAST, failed], 11), ([failed], 12)):
        found = records(trials, number=number)
        assert {tuple(record.failed) for record in found} == {("pytorch-bf16-weights",)}
        assert "pytorch-bf16-weights" not in plan(Table(found)).chosen.launch.candidates
    planted = {**failed, "levers": ["pytorch-tf32"]}
    assert records([LAST, planted], number=13)[0].failed is None


def test_what_was_given_up_after_one_unit_is_tried_last(records):
    """It would use up what trials may lose in each job anew."""
    first = plan().chosen.launch.candidates
    result = "slower in its first unit: 0.6 s against 0.5 s"
    short = {
        **LAST,
        "levers": [first[0]],
        "kept": False,
        "result": result,
        "times": [],
        "rival_times": [],
        "one_time": 1.5,
    }
    for number, trials in enumerate(([short], [short, {**LAST, "levers": [first[1]], "kept": False}]), start=26):
        found = records(trials, number=number)
        assert {tuple(record.slower_at_first) for record in found} == {(first[0],)}
        candidates = plan(Table(found)).chosen.launch.candidates
        assert candidates[-1] == first[0]
        assert candidates[:-1] == [name for name in first[1:] if name in candidates]
    assert records([LAST, {**short, "one_time": 0.1}], number=29)[0].slower_at_first is None
    planted = {**short, "levers": ["pytorch-tf32"]}
    assert records([LAST, planted], number=28)[0].slower_at_first is None


def test_what_goes_on_from_a_choice_is_recorded_as_it_ran(records):
    chosen = ["pytorch-channels-last", "pytorch-autocast-bf16"]
    made = plan(Table(records([LAST, BOTH], number=8)))
    added = {**BOTH, "levers": [*chosen, "pytorch-one-thread"], "rival": chosen, "rival_times": [0.25] * 3}
    instead = {**added, "levers": ["pytorch-channels-last", "pytorch-bf16-weights"], "times": [0.2] * 3}
    assert sorted(levers(records([added, instead], made=made, number=9))) == [
        ["pytorch-bf16-weights", "pytorch-channels-last"],
        chosen,
        [*chosen, "pytorch-one-thread"],
    ]


def test_what_won_and_was_wrong_later_is_not_tried_again_and_what_had_no_room_is(records):
    late = ["pytorch-channels-last: the result differs by 0.5, more than 0.0001"]
    assert records([LAST, BOTH], number=20, not_used=late)[0].failed == ["pytorch-channels-last"]
    crowded = {**WRONG, "kept": False, "result": "MemoryError: a copy takes 9 MiB and 8 MiB are free"}
    assert records([LAST, crowded], number=21)[0].failed is None


def test_a_job_whose_choice_was_not_used_is_recorded_as_the_default(records):
    made = plan(Table(records([LAST], number=22)))
    refused = ["pytorch-channels-last: the result differs by 0.5, more than 0.0001"]
    assert levers(records([], made=made, number=23)) == [[]]
    assert levers(records([], made=made, number=24, on=["pytorch-channels-last"], not_used=refused)) == [[]]
    assert levers(records([], made=made, number=25, on=["pytorch-channels-last"])) == [["pytorch-channels-last"]]


def test_a_choice_that_is_wrong_later_is_not_recorded_as_a_rival(records):
    late = ["pytorch-channels-last: the result differs by 0.5, more than 0.0001"]
    assert levers(records([BOTH], number=14, not_used=late)) == [["pytorch-channels-last", "pytorch-autocast-bf16"]]


def test_a_choice_that_the_node_could_not_use_is_not_recorded_as_on(records):
    made = plan(Table(records([LAST], number=15)))
    assert made.chosen.launch.levers == ["pytorch-channels-last"]
    added = {**LAST, "levers": ["pytorch-one-thread"]}
    assert levers(records([added], made=made, number=16)) == [["pytorch-one-thread"], []]


def test_what_a_choice_took_to_be_made_ready_is_part_of_its_first_unit(records):
    found = records([{**BOTH, "rival_cost": 4.0}], number=17)
    (choice,) = [record for record in found if record.configuration.levers == ["pytorch-channels-last"]]
    assert [(run.first, run.later) for run in choice.runs[:1]] == [(pytest.approx(4.5), [0.5])]


def test_what_two_jobs_tried_is_compared_by_what_both_had(records):
    """The second job's machine is half as fast: its times are no match for the first one's default."""
    first = records([LAST], number=18)
    made = plan(Table(first))
    beside = {"rival": ["pytorch-channels-last"], "rival_times": [1.0, 1.02, 0.98]}
    added = {**LAST, **beside, "levers": ["pytorch-channels-last", "pytorch-one-thread"], "times": [0.8, 0.81, 0.79]}
    later = records([added], made=made, number=19, started=1795300000.0, submitted=1795299999.0, ended=1795300060.0)
    after = plan(Table([*first, *later]))
    assert after.chosen.levers == ["pytorch-channels-last", "pytorch-one-thread"]
    assert after.gain.ratio == pytest.approx(108 / 58 * 1.19, rel=0.1)


def test_units_of_the_workload_that_hold_several_of_the_launchers(records):
    epochs = DEPLOYMENT.application.workload.model_copy(update={"unit": "epoch", "units": 4})
    application = DEPLOYMENT.application.model_copy(update={"workload": epochs})
    deployment = DEPLOYMENT.model_copy(update={"application": application})
    made = make_plan(deployment, FACTS, [], now=NOW, measurements=Table([]))
    found = records([LAST], made=made)
    assert found[0].runs[0].later == [0.5 * 25]
    after = make_plan(deployment, FACTS, [], now=NOW, measurements=Table(found))
    assert after.prediction.seconds == pytest.approx(8.0 + 0.5 + 100 * 0.5, rel=0.02)


def test_a_job_that_tried_nothing_is_a_run_with_the_launchers_phases(records):
    (found,) = records([])
    assert found.kind is None
    (run,) = found.runs
    assert (run.total, run.first, len(run.later), run.later[0]) == (60.0, pytest.approx(0.35), 99, 0.25)


@pytest.mark.parametrize("change", [{"times": [30.0, 31.0, 0.5]}, {"rival_times": [1.0, 62.0, 1.0]}])
def test_times_that_the_job_did_not_have_are_no_measurement(change, records):
    with pytest.raises(InputError, match=r"job\.json: tuning: its trials took longer than the job, 60 s"):
        records([{**LAST, **change}, BOTH])


KEEP = {
    "of": "Net", "levers": ["pytorch-keep-memory"], "result": "faster", "kept": True,
    "times": [0.70, 0.69, 0.71, 0.70], "rival": [], "rival_times": [0.90, 0.88, 0.91, 0.89],
}  # fmt: skip
LAYOUT = {
    "of": "Net", "levers": ["pytorch-keep-memory", "pytorch-channels-last"], "result": "faster", "kept": True,
    "times": [0.56, 0.55, 0.57, 0.56], "rival": ["pytorch-keep-memory"], "rival_times": [0.70, 0.69, 0.71, 0.72],
}  # fmt: skip
AGAIN = {
    "of": "Net", "levers": LAYOUT["levers"], "result": "measured again with the default", "kept": True,
    "times": [0.55, 0.75, 0.56], "rival": [], "rival_times": [0.98, 0.72, 0.90],
}  # fmt: skip


def test_the_way_by_what_both_were_tried_beside_counts_beside_few_noisy_pairs(records):
    """Three pairs with the default alone say 0.84 to 2.74: as a virtual machine measured ResNet50."""
    after = plan(Table(records([KEEP, LAYOUT, AGAIN])))
    assert after.chosen.levers == ["pytorch-keep-memory", "pytorch-channels-last"]
    assert after.gain.low > 1.1


def test_what_seems_to_be_faster_but_not_surely_is_tried_again(records):
    unsure = {**LAYOUT, "times": [0.5, 0.9, 0.5], "rival_times": [0.7, 0.7, 0.7]}
    after = plan(Table(records([KEEP, unsure], number=30)))
    assert after.chosen.levers == ["pytorch-keep-memory"]
    assert "pytorch-channels-last" in after.chosen.launch.candidates
    slower = {**LAYOUT, "times": [0.75, 0.76, 0.74], "rival_times": [0.7, 0.7, 0.7]}
    then = plan(Table(records([KEEP, slower], number=31)))
    assert then.chosen.levers == ["pytorch-keep-memory"]
    assert "pytorch-channels-last" not in then.chosen.launch.candidates


SURVEYED = plan(trials="survey")


def surveyed(names, times, rounds, once=0.0):
    return {"of": "Net", "levers": names, "result": "surveyed", "times": times, "rounds": rounds, "one_time": once}


CHANNELS, BF16 = "pytorch-channels-last", "pytorch-autocast-bf16"
SURVEY = [
    surveyed([CHANNELS, BF16], [0.25, 0.26, 0.24], [2, 3, 4], once=0.1),
    surveyed([CHANNELS], [0.5, 0.52, 0.48], [1, 2, 3], once=2.0),
    surveyed([], [1.0, 1.1, 0.9, 1.0], [1, 2, 3, 4]),
]


def test_sets_of_a_survey_are_compared_round_by_round(records):
    both, alone, default = records(SURVEY, number=70, made=SURVEYED)
    assert [run.block for run in both.runs] == [2, 3, 4]
    assert [run.block for run in default.runs] == [1, 2, 3, 4]
    after = plan(Table([both, alone, default]))
    assert after.chosen.levers == [CHANNELS, BF16]
    assert after.gain.low > 2


def test_a_set_takes_as_long_to_be_made_ready_as_a_part_of_it(records):
    """It found imported and compiled what the part had imported and compiled."""
    both, alone, _ = records(SURVEY, number=71, made=SURVEYED)
    assert [run.first - run.later[0] for run in (*both.runs, *alone.runs)] == pytest.approx([2.0] * 6)


def test_what_a_survey_could_not_use_is_not_tried_again(records):
    wrong = {"of": "Net", "levers": ["pytorch-bf16-weights"], "result": "it differs", "failed": True}
    found = records([*SURVEY, wrong], number=72, made=SURVEYED, not_used=["pytorch-bf16-weights: it differs"])
    assert {tuple(record.failed or ()) for record in found} == {("pytorch-bf16-weights",)}
    assert "pytorch-bf16-weights" not in plan(Table(found)).chosen.launch.candidates


def test_a_survey_that_measured_nothing_is_no_run_of_the_default(records):
    assert records([], number=73, made=SURVEYED) == []


def test_of_two_objects_of_one_name_the_longer_survey_is_recorded(records):
    """Their rounds have the same numbers."""
    other = [
        surveyed([CHANNELS], [0.004] * 9, list(range(1001, 1010))),
        surveyed([], [0.005] * 9, list(range(1001, 1010))),
    ]
    found = records([*other, *SURVEY], number=74, made=SURVEYED)
    assert [len(record.runs) for record in found] == [3, 3, 4]
    assert min(run.later[0] for record in found for run in record.runs) == 0.24


def test_what_was_chosen_and_not_surveyed_is_in_no_other_set(records):
    """A survey begins with the default, whatever was chosen."""
    made = plan(Table(records([LAST], number=76)), trials="survey")
    assert made.chosen.levers == [CHANNELS]
    found = records([surveyed([BF16], [0.5] * 3, [1, 2, 3]), surveyed([], [1.0] * 3, [1, 2, 3])], number=77, made=made,
                    on=[CHANNELS])  # fmt: skip
    assert levers(found) == [[BF16], []]


def test_switching_between_steps_is_no_part_of_the_start(records):
    settled = [{"of": "Net", "levers": [], "reason": "fastest", "switching": 3.0}]
    counted = [{**COUNTED, "name": "training: Net", "start": 2.0}]
    tuning = {"processes": 1, "trials": SURVEY, "settled": settled, "counted": counted}
    (record, *_) = records(SURVEY, number=78, made=SURVEYED, tuning=tuning)
    assert record.runs[0].start == pytest.approx(8.0 - 3.0)


def test_what_made_another_configuration_faster_is_tried_with_the_one_that_took_its_place(records):
    def faster(levers: list[str], seconds: float, rival: list[str], before: float) -> dict[str, object]:
        times = [seconds * part for part in (1.0, 1.02, 0.98, 1.0)]
        others = [before * part for part in (1.0, 1.01, 0.99, 1.0)]
        return {**LAST, "levers": levers, "times": times, "rival": rival, "rival_times": others}

    memory, weights, cast = "pytorch-keep-memory", "pytorch-bf16-weights", "pytorch-autocast-bf16"
    trials = [
        faster([weights], 0.7, [], 1.0),
        faster([weights, memory], 0.6, [weights], 0.7),
        faster([cast], 0.4, [], 1.0),
    ]
    then = plan(Table(records(trials))).chosen
    assert (then.levers, memory in then.launch.candidates) == ([cast], True)
    both = [*trials, faster([cast, memory], 0.41, [cast], 0.4)]
    assert memory not in plan(Table(records(both, number=2))).chosen.launch.candidates


def test_seconds_of_trials_are_those_of_all_units(records):
    """In a list, a report and a law of scaling; their runs hold two units each."""
    last, default = records([LAST])
    assert (seconds_of(last), seconds_of(default)) == (pytest.approx(58.5), pytest.approx(108))
    ((comparison,), (series, _)) = comparisons([last, default], load_catalogue()), series_of([last, default])
    assert comparison.gains[0][1].value == pytest.approx(108 / 58.5, rel=0.01)
    assert sorted(point.seconds for point in series.points) in ([pytest.approx(0.585)], [pytest.approx(1.08)])
