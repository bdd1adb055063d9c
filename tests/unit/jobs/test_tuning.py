"""What the launcher wrote in a job comes back, checked and bounded."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from jobplans import requested, with_launch
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.jobs.tuning import BYTES, FILES, LINES, lines, parse_tuning, progress
from modak_deploy.model.job import JobResult, Tuning
from modak_deploy.model.plan import Launch, Plan
from modak_deploy.performance.trials import given_up, unused
from modak_deploy.terminal import visible
from modak_deploy.transport.local import LocalTransport
from transports import Notes

DATA = Path(__file__).parents[2] / "data" / "launch"
ODD = yaml.safe_load((DATA / "odd_records.yaml").read_text())
RECORD = [
    {"event": "lever", "lever": "pytorch-pin-memory", "framework": "pytorch"},
    {"event": "trying", "of": "Net", "lever": "pytorch-channels-last", "variant": "pytorch-channels-last"},
    {
        "event": "trial", "of": "Net", "variant": "pytorch-channels-last", "result": "faster than the best so far",
        "kept": True, "failed": False, "times": [0.5, 0.51, 0.49], "rival": "default", "rival_times": [1, 1.1, 0.9],
        "units": 3, "seconds": 0.5, "noise": 0.01, "gain": 2.0, "default": 1.0, "one_time": 0.2, "difference": 1e-7,
    },
    {"event": "fallback", "what": "pytorch-channels-last + pytorch-compile", "reason": "no compiler"},
    {
        "event": "trial", "of": "Net", "variant": "pytorch-channels-last + pytorch-compile", "result": "no compiler",
        "kept": False, "failed": True, "default": 1.0, "one_time": 9.0, "difference": None,
    },
    {
        "event": "settled", "of": "Net", "variant": "pytorch-channels-last", "reason": "fastest of all that was tried",
        "gain": 2.0, "lost": 0.4, "after_units": 12,
    },
    {
        "event": "state", "name": "inference: Net", "unit": "call", "units": 100, "seconds": 52.0, "start": 3.0,
        "compile": 0.1, "steady": 0.5, "elapsed": 53.0, "features": {"model": "Net", "parameters": 10},
    },
    {"event": "state", "name": "process", "peak_memory": 1000000},
]  # fmt: skip


def text(entries: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def carried_out(jobs: Jobs, tmp_path: Path) -> Callable[..., JobResult]:
    """Return the function that runs a line of shell in a job with the launcher and returns the fetched result."""

    def run(line: str) -> JobResult:
        made = with_launch(requested(["sh", "-c", line], tmp_path / "space"), Launch(trials="live"))
        present = jobs.present(made)
        (result,) = jobs.wait([present])
        return jobs.fetch_results(present.job, result, tmp_path / "results").result

    return run


def test_what_was_tried_is_in_the_result(carried_out: Callable[..., JobResult], tmp_path: Path) -> None:
    (tmp_path / "record").write_text(text(RECORD))
    result = carried_out(f"mkdir ../launch/record && cp {tmp_path}/record ../launch/record/host-1.jsonl")
    assert result.tuning == parse_tuning([text(RECORD)], 1)
    assert JobResult.model_validate_json((tmp_path / "results" / "probe" / "job.json").read_bytes()) == result
    tuning = result.tuning
    assert tuning is not None
    assert [trial.levers for trial in tuning.trials] == [
        ["pytorch-channels-last"],
        ["pytorch-channels-last", "pytorch-compile"],
    ]
    assert tuning.counted[0].features == {"model": "Net", "parameters": 10}
    assert (tuning.levers, tuning.peak_memory, tuning.incomplete) == (["pytorch-pin-memory"], 1000000, [])
    assert list(lines(tuning)) == [
        "inference: Net: 100 calls, 500 ms each",
        "tried pytorch-channels-last: 500 ms a unit, 2.00 times as fast as the default: faster than the best so far",
        "tried pytorch-channels-last + pytorch-compile: no compiler",
        "Net went on with pytorch-channels-last, 2.00 times as fast as the default: fastest of all that was tried",
        "not used: pytorch-channels-last + pytorch-compile: no compiler",
    ]


def test_what_was_made_ready_in_the_background_is_told() -> None:
    trial = {**RECORD[2], "one_time": 4.4, "background": 4.1}
    tuning = parse_tuning([text([{"event": "making"}, {"event": "made"}, trial])], 1)
    assert (tuning.trials[0].one_time, tuning.trials[0].background, tuning.incomplete) == (4.4, 4.1, [])
    assert list(lines(tuning)) == [
        "tried pytorch-channels-last: 500 ms a unit, 2.00 times as fast as the default, "
        "made ready in the background in 4.1 s: faster than the best so far"
    ]
    odd = parse_tuning([text([{**trial, "background": -1}])], 1)
    assert odd.incomplete and not odd.trials


def test_a_job_that_fails_tells_of_its_trials_too(carried_out: Callable[..., JobResult]) -> None:
    result = carried_out("""mkdir ../launch/record; echo '{"event": "end"}' >../launch/record/a-1.jsonl; exit 3""")
    assert (result.state, result.exit_code, result.tuning) == ("failed", 3, Tuning(processes=1))


@pytest.mark.parametrize(
    "line",
    [
        "true",
        "touch ../launch/record",
        "ln -s /etc ../launch/record",
        "mkdir ../launch/record; mkfifo ../launch/record/a-1.jsonl",
        "mkdir ../launch/record; ln -s /etc/passwd ../launch/record/a-1.jsonl",
        'mkdir ../launch/record; echo x >"../launch/record/a b.jsonl"; echo x >"../launch/record/$(echo).jsonl"',
        "mkdir ../launch/record; chmod 0 ../launch/record",
        "rm -rf ../launch",
    ],
)
def test_other_files_in_its_place_are_left_alone(line: str, carried_out: Callable[..., JobResult]) -> None:
    result = carried_out(line)
    assert result.state == "completed"
    assert result.tuning is not None and not result.tuning.counted and not result.tuning.not_used


def test_much_is_bounded_and_said(carried_out: Callable[..., JobResult]) -> None:
    line = "mkdir ../launch/record; cd ../launch/record; n=0; while [ $n -lt 70 ]; do n=$((n+1)); : >a-$n.jsonl; done; "
    result = carried_out(f"{line} dd if=/dev/zero bs={2 * BYTES} count=1 of=b-1.jsonl 2>/dev/null")
    assert result.tuning is not None
    assert result.tuning.processes == 71
    assert result.tuning.incomplete[-1] == f"{71 - FILES} of 71 records were not read"


def test_lines_beyond_the_limit_are_counted_and_not_read() -> None:
    tuning = parse_tuning(["{}\n" * (LINES + 7)], 1)
    assert tuning.incomplete == ["5007 entries of the launcher's records cannot be read"]


@pytest.mark.parametrize("case", ODD, ids=lambda case: case["line"][:60])
def test_odd_entries_are_counted_and_left_out(case: dict[str, Any]) -> None:
    tuning = parse_tuning([f"{case['line']}\n{text(RECORD[-1:])}"], 1)
    assert len(tuning.incomplete) == case["unreadable"]
    assert tuning.peak_memory == 1000000
    shown = "\n".join(lines(tuning))
    assert visible(shown) == shown


def test_progress_is_told_while_the_job_runs(tmp_path: Path, hasty: Timeouts) -> None:
    state = RECORD[6:7]
    (tmp_path / "record").write_text(text(RECORD[:3] * 20 + state))
    line = f"mkdir ../launch/record && cp {tmp_path}/record ../launch/record/host-1.jsonl && sleep 1"
    made = requested(["sh", "-c", line], tmp_path / "space")
    made = with_launch(made, Launch(trials="live", units=220))
    notes = Notes()
    jobs = Jobs(LocalTransport(), timeouts=hasty, reporter=notes)
    present = jobs.present(made)
    jobs.wait([present])
    told = [notice for notice in notes.notices if " calls" in notice]
    assert told == [f"job {present.job.id}: 100 of 220 calls, 2 a second, about 0:01:00 to go"]


def test_progress_of_odd_records() -> None:
    assert progress("", 5) is None and progress("cut off}\n{", 5) is None
    assert progress(text(RECORD[6:]), None) == "100 calls, 2 a second"
    assert progress(text(RECORD[6:]), 50) == "100 calls, 2 a second"


def test_what_was_not_tried_is_told_with_its_reason() -> None:
    reason = "a first unit with it may lose 1.9 s, and trials may lose 0.63 s in this job"
    settled = "nothing could be tried: a unit takes 0.95 s and trials may lose 0.63 s in this job"
    entries = [
        {"event": "not_tried", "of": "Net", "lever": "pytorch-channels-last", "reason": reason},
        {"event": "settled", "of": "Net", "variant": "default", "reason": settled, "lost": 0.0, "after_units": 4},
    ]
    tuning = parse_tuning([text(entries)], 1)
    assert tuning.not_used == [f"pytorch-channels-last: not tried: {reason}"]
    assert list(lines(tuning)) == [
        f"Net went on with the default: {settled}",
        f"not used: pytorch-channels-last: not tried: {reason}",
    ]


def test_the_process_that_did_the_work_is_told_of() -> None:
    helper = text([{**RECORD[6], "seconds": 900.0, "name": "inference: Other"}])
    assert parse_tuning([helper, text(RECORD)], 2).counted[0].name == "inference: Net"
    assert parse_tuning([helper, text(RECORD[6:])], 2).counted[0].name == "inference: Other"


def test_what_was_surveyed_is_told_with_the_rounds_of_its_times() -> None:
    sets = [("a + b", 2.0, [0.5, 0.6]), ("a", 1.25, [0.8]), ("default", 1.0, [1.0, 1.1])]
    entries = [
        {
            "event": "surveyed", "of": "Net", "levers": [] if name == "default" else name.split(" + "), "gain": gain,
            "times": times, "rounds": list(range(4, 4 + len(times))), "once": 3.0, "difference": None, "asked": False,
        }
        for name, gain, times in sets
    ]  # fmt: skip
    failed = {"event": "trial", "of": "Net", "variant": "c", "result": "it differs", "failed": True}
    settled = {"event": "settled", "of": "Net", "variant": "a + b", "reason": "fastest of all that was measured"}
    ended = [failed, *entries, {**settled, "gain": 2.0}]
    tuning = parse_tuning([text(ended)], 1)
    assert [(trial.levers, trial.kept, trial.rounds) for trial in tuning.trials] == [
        (["c"], False, []),
        (["a", "b"], True, [4, 5]),
        (["a"], False, [4]),
        ([], False, [4, 5]),
    ]
    assert (tuning.trials[1].seconds, tuning.trials[1].one_time, tuning.trials[1].times) == (0.55, 3.0, [0.5, 0.6])
    shown = list(lines(tuning))
    assert "tried a + b: 550 ms a unit, 2.00 times as fast as the default: surveyed in 2 rounds" in shown
    assert shown[-1] == "Net went on with a + b, 2.00 times as fast as the default: fastest of all that was measured"
    another = parse_tuning([text([*ended, *entries, {**settled, "variant": "a"}])], 1).trials
    assert [trial.rounds for trial in another[4:]] == [[1004, 1005], [1004], [1004, 1005]]
    assert [trial.levers for trial in another if trial.kept] == [["a", "b"], ["a"]]


def test_what_no_object_has_any_more_was_given_up() -> None:
    """The job was recorded as one with the lever, and took as long as one without it."""
    reason = "the program uses autocast itself"
    chosen = {"event": "chosen", "of": "Net", "variant": "pytorch-compile"}
    gone = {**chosen, "event": "given_up", "reason": reason, "time": 2.0}
    failed = {"event": "fallback", "what": "pytorch-compile", "reason": reason}
    plan = cast(Plan, SimpleNamespace(chosen=SimpleNamespace(launch=Launch(levers=["pytorch-compile"]))))

    def seen(*entries: dict[str, Any]) -> tuple[list[str], set[str], bool]:
        tuning = parse_tuning([text([*entries, {"event": "end", "time": 9.0}])], 1)
        return tuning.not_used, unused(plan, tuning), bool(given_up(tuning))

    assert seen(chosen, gone) == ([f"pytorch-compile: given up: {reason}"], {"pytorch-compile"}, False)
    assert seen(chosen, failed, gone) == ([f"pytorch-compile: {reason}"], {"pytorch-compile"}, True)
    assert seen(chosen, chosen, gone) == ([], set(), False)
    assert seen(chosen, {**gone, "time": 8.0}) == ([], set(), False), "most of it was done with the lever"
