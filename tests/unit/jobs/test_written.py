"""How far a running program is, by what it writes."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobplans import requested
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.jobs.written import Written
from modak_deploy.transport.local import LocalTransport
from transports import Notes

STEP = "step (\\d+)"


def _told(written: Written, *seen: tuple[float, str]) -> list[str | None]:
    return [written.observe(text, now) for now, text in seen]


def test_the_rate_follows_from_two_numbers() -> None:
    told = _told(Written(STEP, 500), (10.0, "step 1\n"), (30.0, "step 1\nstep 41\n"), (40.0, "step 41\nstep 42 and"))
    assert told[0] is None
    assert told[1] == "unit 41 of 500, 2 a second, about 0:03:50 to go"
    assert told[2] == "unit 41 of 500, 1.33 a second, about 0:05:44 to go", "a line that is not whole does not count"


def test_numbers_that_begin_again_tell_no_end() -> None:
    written = Written("epoch [0-9]+ batch (\\d+)/", 100)
    told = _told(
        written, (0.0, "epoch 1 batch 90/100\n"), (1.0, "epoch 2 batch 5/100\r\n"), (3.0, "epoch 2 batch 9/100\r\n")
    )
    assert told == [None, None, "unit 9, 2 a second"]


def test_a_bar_writes_over_its_own_line() -> None:
    assert _told(Written("(\\d+)/200", 200), (0.0, "1/200\r2/200\r"), (1.0, "\r11/200\r"))[1] == (
        "unit 11 of 200, 9 a second, about 0:00:21 to go"
    )


@pytest.mark.parametrize(
    "pattern", ["(?:it|step) (\\d+)", "(?:a|(?:b|step)) ([0-9,_ ]+)", "step (\\d+)(?: loss=(.*))?"]
)
def test_the_group_of_the_number_is_the_nodes(pattern: str) -> None:
    assert _told(Written(pattern), (0.0, "step 1\n"), (2.0, "step 7\n"))[1] == "unit 7, 3 a second"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "step\n",
        "step \u0664\u0662\n",
        f"step {'9' * 13}\n",
        "step 5",
        "\x1b[2Jstep \n",
        f"{'x' * 3000}step 5\n",
    ],
)
def test_odd_output_tells_nothing(text: str) -> None:
    assert _told(Written(STEP, 10), (0.0, "step 1\n"), (5.0, text)) == [None, None]


def test_more_units_than_said_tell_no_end() -> None:
    assert _told(Written(STEP, 10), (0.0, "step 1\n"), (5.0, "step 11\n"))[1] == "unit 11, 2 a second"


def test_it_is_told_while_the_job_runs(tmp_path: Path, hasty: Timeouts) -> None:
    line = "n=0; while [ $n -lt 25 ]; do n=$((n + 1)); echo step $n; sleep 0.1; done"
    made = replace(requested(["sh", "-c", line], tmp_path / "space"), progress=STEP, units=25)
    notes = Notes()
    jobs = Jobs(LocalTransport(), timeouts=hasty, reporter=notes)
    (result,) = jobs.wait([jobs.present(made)])
    assert result.state == "completed"
    told = [notice for notice in notes.notices if "of 25" in notice]
    assert told and " a second, about 0:00:0" in told[0]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [("(?:a+)+ (\\d+)", "a" * 200), ("x*x*x*x*x*x*x*(\\d+)", "x" * 1900), (".* .* .* .*s(\\d+)", " " * 1900)],
)
def test_an_expression_that_takes_forever_is_given_up(pattern: str, line: str) -> None:
    written = Written(pattern)
    began = time.monotonic()
    assert [written.observe(f"{line}\n" * 4, float(now)) for now in range(20)] == [None] * 20
    assert time.monotonic() - began < 20, "once, not at each look"


def test_output_that_is_no_text_is_no_progress() -> None:
    text = "\x1b[2Jstep 1\x00\ud800\u2028\nstep " + "9" * 5000 + "\nno end"
    assert Written(STEP).observe(text, 1.0) is None
    written = Written(STEP)
    assert [written.observe(f"\ud800\x00step {now}\n", float(now)) for now in (1, 2)][1] == "unit 2, 1 a second"
