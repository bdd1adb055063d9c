"""Commands as text, what is answered to them, and who answers."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError, JobError, ModakError, TargetError
from modak_deploy.model.base import SchedulerName
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import Recognised
from modak_deploy.schedulers.detect import recognise
from modak_deploy.schedulers.steps import reach
from modak_deploy.transport.base import Completed
from scheduler_parts import TAG, make, shells, table

ALL: tuple[SchedulerName, ...] = ("slurm", "torque", "openpbs", "gridengine", "process")
WRAPPER = """Unknown option: version
Usage:
    qsub [-a start_time] [-A account] [-b y|n] [-e err_path] [-I] [-l
    resource_list] [-m mail_options] [-M user_list] [-N job_name] [-o
    out_path] [-p priority] [-pe shm task_cnt] [-P wckey] [-q destination]
"""


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['scheduler']}-{c['name']}") for c in table("submit")])
def test_answer_to_a_submission(case: dict[str, Any]) -> None:
    done = Completed(case.get("rc", 0), case.get("out", ""), case.get("err", ""))
    scheduler = registry.get(case["scheduler"])
    if "id" in case:
        assert scheduler.parse_submit(done) == case["id"]
        return
    kind: type[ModakError] = JobError if "refused" in case else TargetError
    with pytest.raises(kind) as failure:
        scheduler.parse_submit(done)
    assert str(failure.value).startswith(case.get("refused") or case["silent"])
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("bad", ["1; reboot", "$(reboot)", "", "1 2", "-all", "1\n2", "abc", "\u0661"])
def test_an_id_that_is_none_reaches_no_shell(scheduler: SchedulerName, bad: str) -> None:
    for command in (registry.get(scheduler).status_command, registry.get(scheduler).cancel_command):
        with pytest.raises(InputError):
            command([bad])


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("bad", ["modak-x", "modak-0123456789ABCDEF", f"{TAG}\n", f"{TAG} --all", "$(reboot)"])
def test_a_tag_that_is_none_reaches_no_shell(scheduler: SchedulerName, bad: str) -> None:
    with pytest.raises(InputError, match="is not a tag"):
        registry.get(scheduler).find_command(bad, "digits")


@pytest.mark.parametrize("scheduler", ["slurm", "torque", "openpbs"])
def test_many_jobs_are_one_question(scheduler: SchedulerName) -> None:
    ids = [str(number) if scheduler == "slurm" else f"{number}.server" for number in range(1000, 1100)]
    command = registry.get(scheduler).status_command(ids)
    assert all(name in command.splitlines()[0] for name in ids)
    assert command.count("squeue --noheader") == (scheduler == "slurm")


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
@pytest.mark.parametrize("profile", ["PATH=$PATH:{}; echo Welcome; read line", "PATH=$PATH:{}; false", "exit 3", None])
def test_a_command_that_only_a_login_has_on_its_path(shell: list[str], profile: str | None, tmp_path: Path) -> None:
    (tmp_path / "asksite").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "asksite").chmod(0o755)
    if profile is not None:
        (tmp_path / "profile").write_text(profile.format(tmp_path))
    command = reach("asksite").replace("/etc/", f"{tmp_path}/") + "asksite || echo not found"
    done = subprocess.run([*shell, "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout == ("found\n" if profile and "PATH" in profile else "not found\n")


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
def test_openpbs_itself_says_where_it_is(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "asksite").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "bin" / "asksite").chmod(0o755)
    (tmp_path / "pbs.conf").write_text(f"PBS_SERVER=vm\nPBS_EXEC={tmp_path}\nPBS_HOME=/var/spool/pbs\n")
    command = reach("asksite").replace("/etc/", f"{tmp_path}/") + "asksite"
    done = subprocess.run([*shell, "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout == "found\n"


@pytest.mark.parametrize("scheduler", ["slurm", "torque", "openpbs"])
def test_every_command_of_a_scheduler_is_looked_for(scheduler: SchedulerName) -> None:
    part = make(scheduler, job={"partition": "cpu"})
    number = "12" if scheduler == "slurm" else "12.vm"
    own = part.scheduler
    commands = [own.submit_command(part.spec), own.check_command(part.spec), own.find_command(TAG, "digits")]
    for command in [*commands, own.status_command([number]), own.cancel_command([number])]:
        assert command is not None
        assert re.search(r"^reach \w+$", command, re.MULTILINE)


def test_what_a_site_sets_for_sbatch_does_not_win_over_the_script() -> None:
    part = make("slurm", job={"partition": "cpu"})
    command = part.scheduler.submit_command(part.spec)
    unset = command.partition(";")[0].split()
    assert unset[0] == "unset"
    assert "SBATCH_PARTITION" in unset
    assert "SBATCH_ACCOUNT" not in unset, "a site's default stays where the user names none"


@pytest.mark.parametrize(
    ("sbatch", "qsub", "expected"),
    [
        ("slurm-wlm 22.05.8\n", "", Recognised("slurm", "22.05.8")),
        ("slurm 23.11.4", "", Recognised("slurm", "23.11.4")),
        ("slurm-wlm 22.05.8\n", WRAPPER, Recognised("slurm", "22.05.8", wrapped=True)),
        ("", WRAPPER, Recognised("slurm", None, wrapped=True)),
        ("sbatch: fatal: Could not establish a configuration source\n", "", Recognised("slurm", None)),
        ("", "Version: 6.1.3.h5\nCommit: b405afb\n", Recognised("torque", "6.1.3.h5")),
        ("", "pbs_version = 23.06.06\n", Recognised("openpbs", "23.06.06")),
        ("sh: 1: sbatch: not found", "sh: 1: qsub: not found", None),
        ("", "", None),
    ],
)
def test_who_answers(sbatch: str, qsub: str, expected: Recognised | None) -> None:
    assert recognise(defaultdict(str, sbatch=sbatch, qsub=qsub)) == expected
