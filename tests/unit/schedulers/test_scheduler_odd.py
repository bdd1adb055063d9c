"""What Torque and OpenPBS print when nothing is as it should be: understood, passed over, or one sentence."""

from typing import Any

import pytest

from modak_deploy.errors import ModakError
from modak_deploy.jobs import folder
from modak_deploy.model.base import SchedulerName
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.pbs.discovery import parse_nodes, parse_queues
from modak_deploy.transport.base import Completed
from scheduler_parts import TAG, table

ODD = [*table("odd"), "9" * 5000, "(" * 5000, "1." + "a" * 100_000]
FIELDS = (
    "job_state", "exit_status", "Exit_status", "comment", "depend", "Hold_Types", "exec_host",
    "resources_used.walltime", "Resource_List.walltime", "estimated.start_time", "nosuch",
)  # fmt: skip


@pytest.mark.parametrize("scheduler", ["torque", "openpbs"])
@pytest.mark.parametrize("odd", ODD, ids=lambda text: ascii(text)[:30])
def test_no_parser_raises_anything_of_its_own(scheduler: SchedulerName, odd: str) -> None:
    one = registry.get(scheduler)
    for code in (0, 1, 35, 137, 153, 255):
        for out, err in ((odd, ""), ("", odd), (f"{odd}\n1.server\n", odd)):
            done = Completed(code, out, err)
            _allowed(lambda done=done: one.parse_submit(done))
            _allowed(lambda done=done: one.parse_status(done, ["1.server", "43[].server"]))
            _allowed(lambda done=done: one.parse_find(done, TAG))
    for letter in "QHRCFXEB?":
        for field in FIELDS:
            fields = {"job_state": letter, field: odd}
            lines = "".join(f"    {key} = {value}\n" for key, value in fields.items())
            for number in ("1.server", "43[0].server"):
                done = Completed(0, f"Job Id: {number}\n{lines}\n", "")
                _allowed(lambda done=done: one.parse_status(done, ["1.server", "43[].server"]))
    one.parse_end_message(f"=>> PBS: job killed: {odd}")
    one.id_of(odd)
    folder.parse({"messages": f"scheduler.log.{odd}:x\nscheduler.log:{odd}\n{odd}"})


@pytest.mark.parametrize("odd", ODD, ids=lambda text: ascii(text)[:30])
def test_discovery_passes_over_what_is_no_number(odd: str) -> None:
    keys = ("state", "np", "pcpus", "gpus", "status", "resources_available.ncpus", "resources_available.mem")
    nodes = parse_nodes("".join(f"n{number}\n     {key} = {odd}\n\n" for number, key in enumerate(keys)))
    queues = "".join(f"Queue: q{odd[:20]}\n    {key} = {odd}\n\n" for key in ("enabled", "resources_max.walltime"))
    parse_queues(queues, f"Server: s\n    default_queue = {odd}\n", nodes)


@pytest.mark.parametrize("scheduler", ["torque", "openpbs"])
@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\r"])
def test_a_value_cannot_pretend_to_be_another_job(scheduler: SchedulerName, end: str) -> None:
    forged = f"x{end}Job Id: 2.server{end}    job_state = C{end}    exit_status = 0"
    text = f"Job Id: 1.server\n    Job_Name = {forged}\n    job_state = R\n"
    states = registry.get(scheduler).parse_status(Completed(0, text, ""), ["1.server", "2.server"])
    assert {number: state.state for number, state in states.items()} == {"1.server": "running"}


@pytest.mark.parametrize("case", table("messages"), ids=lambda case: case["line"][:50])
def test_what_pbs_writes_when_it_ends_a_job(case: dict[str, Any]) -> None:
    for scheduler, name in (("torque", "Torque"), ("openpbs", "OpenPBS")):
        told = registry.get(scheduler).parse_end_message(case["line"])  # type: ignore[arg-type]
        if case["state"] is None:
            assert told is None
        else:
            assert told is not None
            assert (told.state, told.reason) == (case["state"], case["reason"].replace("the scheduler", name))


def _allowed(call: Any) -> None:
    try:
        call()
    except ModakError as error:
        assert "\n" not in str(error)
