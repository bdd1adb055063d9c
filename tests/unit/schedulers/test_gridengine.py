"""Grid Engine: directives, and the answers of its commands as the real daemons gave them."""

import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import Recognised
from modak_deploy.schedulers.detect import recognise
from modak_deploy.schedulers.gridengine.discovery import parse_qhost
from modak_deploy.transport.base import Completed
from modak_deploy.util.units import size_of
from scheduler_parts import DATA, TAG, make

FOLDER = DATA / "schedulers" / "gridengine"
CASES: dict[str, list[Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text())
STATUS = (FOLDER / "status.txt").read_text()
SCHEDULER = registry.get("gridengine")


def _named(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES[kind]]


@pytest.mark.parametrize("case", _named("options"))
def test_directives_of_each_option(case: dict[str, Any]) -> None:
    part = make("gridengine", job=case.get("job"), target=case.get("target"), resources=case.get("resources"))
    if "refused" in case:
        with pytest.raises(InputError) as error:
            SCHEDULER.directives(part.spec)
        assert str(error.value).startswith(case["refused"])
    else:
        lines = SCHEDULER.directives(part.spec)
        assert [line for line in case["lines"] if line not in lines] == []


@pytest.mark.parametrize("case", _named("submit"))
def test_answers_of_qsub(case: dict[str, Any]) -> None:
    done = Completed(case.get("rc", 0), case.get("out", ""), case.get("err", ""))
    if "id" in case:
        assert SCHEDULER.parse_submit(done) == case["id"]
    else:
        with pytest.raises(JobError if "refused" in case else TargetError) as error:
            SCHEDULER.parse_submit(done)
        assert str(error.value).startswith(case.get("refused") or case["silent"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES["states"]])
def test_state_of_each_captured_job(case: dict[str, Any]) -> None:
    state = SCHEDULER.parse_status(Completed(0, STATUS, ""), [case["id"]]).get(case["id"])
    if case["state"] is None:
        assert state is None
        return
    assert state is not None
    assert state.state == case["state"]
    assert state.exit_code == (None if case.get("tasks") and state.exit_code is None else case.get("exit_code"))
    assert case.get("reason", state.reason) == state.reason
    assert tuple(case.get("nodes", state.nodes)) == tuple(state.nodes)
    assert {number: task.state for number, task in state.tasks.items()} == case.get("tasks", {})


@pytest.mark.parametrize("text", CASES["odd"])
def test_odd_answers_are_no_crash(text: str) -> None:
    SCHEDULER.parse_status(Completed(0, text, ""), ["1", "2"])


def test_server_that_does_not_answer() -> None:
    done = Completed(1, "", 'error: unable to send message to qmaster using port 6444 on host "gm": got send error\n')
    with pytest.raises(TargetError, match="Grid Engine does not answer"):
        SCHEDULER.parse_status(done, ["1"])
    with pytest.raises(TargetError, match="Grid Engine does not answer"):
        SCHEDULER.parse_find(done, TAG)


def test_jobs_found_by_tag() -> None:
    assert SCHEDULER.parse_find(Completed(0, "modak-job 12\nmodak-job 9\nmodak-job ²\n", ""), TAG) == ["9", "12"]


def test_ids_that_are_no_numbers_reach_no_command() -> None:
    for text in ("12.1", "-1", "²", "1;reboot", ""):
        with pytest.raises(InputError, match="is not the id of a Grid Engine job"):
            SCHEDULER.status_command([text])


def test_layout_that_the_environment_did_not_give_ends_the_job() -> None:
    resources = {"nodes": 2, "ranks": 6, "ranks_per_node": 3}
    part = make("gridengine", resources=resources, target={"parallel_environment": "mpi"})
    assert "did not give 2 hosts with room for 6 ranks of 1 slots" in SCHEDULER.prepare(part.spec)
    assert SCHEDULER.launch(part.spec, ["./solve"]).startswith("mpirun -n 6 -machinefile ")


def test_end_signals_are_trapped_by_the_job_script() -> None:
    assert "trap 'modak_on_signal 12' USR2\n" in make("gridengine").script()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("SGE 8.1.9\nusage: qsub [options]\n", "8.1.9"),
        ("UGE 8.6.18\nusage: qsub [options]\n", "8.6.18"),
        ("GE 6.2u5\nusage: qsub [options]\n", "6.2u5"),
        ("OGS/GE 2011.11p1\nusage: qsub [options]\n", "2011.11p1"),
    ],
)
def test_recognised_by_the_help_of_qsub(text: str, version: str) -> None:
    assert recognise(defaultdict(str, {"qsub-help": text})) == Recognised("gridengine", version)


QSTAT = """#!/bin/sh
case $1 in
-xml) for id in $(cat "$0.jobs"); do echo "<JB_job_number>$id</JB_job_number>"; done ;;
-j)
  [ "$2" != "$GONE" ] || { echo 11 >"$0.jobs" && exit 1; }
  [ "$2" != "$MUTE" ] || exit 1
  echo "job_number: $2" && echo "account: TAG"
  ;;
esac
"""


@pytest.mark.parametrize(
    ("gone", "mute", "code", "found"),
    [("", "", 0, ["11", "12"]), ("12", "", 0, ["11"]), ("", "12", 1, []), ("", "11", 1, [])],
)
def test_a_job_of_which_nothing_is_told_may_be_the_one(
    tmp_path: Path, gone: str, mute: str, code: int, found: list[str]
) -> None:
    qstat = tmp_path / "qstat"
    qstat.write_text(QSTAT.replace("TAG", TAG))
    qstat.chmod(0o755)
    (tmp_path / "qstat.jobs").write_text("11 12\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GONE": gone, "MUTE": mute}
    command = ["sh", "-c", SCHEDULER.find_command(TAG, "name")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, bool(done.stderr)) == (code, bool(code))
    if code:
        with pytest.raises(TargetError, match="tells nothing of it"):
            SCHEDULER.parse_find(Completed(done.returncode, done.stdout, done.stderr), TAG)
    else:
        assert SCHEDULER.parse_find(Completed(0, done.stdout, done.stderr), TAG) == found


def test_queues_and_hosts() -> None:
    (queue,) = parse_qhost((DATA / "discovery" / "gridengine-qhost.xml").read_text())
    assert (queue.name, queue.nodes, queue.available, queue.default) == ("all.q", 2, True, True)
    assert (queue.node.cores, queue.node.memory) == (4, size_of("23.5G"))


def test_the_record_of_a_rank_is_not_that_of_the_job(tmp_path: Path) -> None:
    """Univa Grid Engine without accounting_summary: qacct tells of the processes on other hosts, too, in any order."""
    head = "=" * 62
    rank = f"{head}\nhostname     n2\njobnumber    7\ntaskid       undefined\npe_taskid    1.n2\nfailed       100"
    rank += " : assumedly after job\nexit_status  137\nru_wallclock 3.2\n"
    job = f"{head}\nhostname     n1\njobnumber    7\ntaskid       undefined\npe_taskid    NONE\nfailed       0\n"
    job += "exit_status  0\nru_wallclock 4.2\n"
    (tmp_path / "qstat").write_text("#!/bin/sh\necho '<job_info/>'\n")
    for order in (job + rank, rank + job):
        (tmp_path / "qacct").write_text(f"#!/bin/sh\ncat <<'X'\n{order}X\n")
        for name in ("qstat", "qacct"):
            (tmp_path / name).chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        command = ["sh", "-c", SCHEDULER.status_command(["7"])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        state = SCHEDULER.parse_status(Completed(done.returncode, done.stdout, done.stderr), ["7"])["7"]
        assert (state.state, state.exit_code, list(state.nodes)) == ("completed", 0, ["n1"])
