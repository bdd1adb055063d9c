"""The runner of restart trials as it travels: one script, made of parts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from modak_deploy.jobs import restarting
from scheduler_parts import shells
from trial_parts import FAST, restart, with_trials

FOLDER = Path(__file__).parents[3] / "modak_deploy" / "jobs" / "sh"
PARTS = [FOLDER / name for name in restarting._PARTS]
# SC2030, SC2031: a trial has variables of its own, on purpose.
EXCLUDED = "--exclude=SC2016,SC2030,SC2031"


def test_no_part_is_longer_than_400_lines() -> None:
    assert all(len(part.read_text().splitlines()) < 400 for part in PARTS)


@pytest.mark.parametrize("files", [PARTS, [FOLDER / "restart_rank.sh"]], ids=["runner", "rank"])
def test_shellcheck_finds_nothing(files: list[Path]) -> None:
    program = shutil.which("shellcheck")
    assert program, "shellcheck is needed: make setup installs it"
    text = "".join(part.read_text() for part in files)
    done = subprocess.run([program, EXCLUDED, "-s", "sh", "-"], input=text, capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
def test_every_shell_reads_them(shell: list[str], tmp_path: Path) -> None:
    new, _ = with_trials("exit", restart(FAST), tmp_path, ranks=2)
    files = restarting.files(new)
    for name in (restarting.RUNNER, restarting.RANK):
        done = subprocess.run([*shell, "-n"], input=files[name], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b""), name


def test_the_runner_of_ranks_stands_before_their_launcher(tmp_path: Path) -> None:
    new, _ = with_trials("exit", restart(FAST), tmp_path, ranks=2)
    assert restarting.runner(new, "/job") == ["sh", "/job/restart/restart.sh", "/job", "0"]
    assert restarting.starter(new, "/job") == ["sh", "/job/restart/rank.sh", "/job", restarting.CANDIDATE]
    new, _ = with_trials("exit", restart(FAST), tmp_path)
    assert restarting.starter(new, "/job") == restarting.runner(new, "/job")
    assert restarting.RANK not in restarting.files(new)
