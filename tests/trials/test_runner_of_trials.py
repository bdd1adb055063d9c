"""The runner of restart trials by itself: whatever goes wrong in it, the program runs as the Plan starts it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from modak_deploy.jobs import restarting
from modak_deploy.jobs.restarted import parse_restart
from scheduler_parts import shells
from trial_parts import FAST, LOOP, candidate, restart, staged, with_trials


def started(line: list[str], folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command line in the working directory of ``staged``, and return how it ended."""
    variables = {**os.environ, "TRACE": str(folder / "trace"), **environment}
    return subprocess.run(
        line, cwd=folder / "here", env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
@pytest.mark.parametrize("name", ["record", "log"])
def test_what_cannot_be_written_keeps_no_program_from_running(tmp_path: Path, shell: list[str], name: str) -> None:
    """As on a disk or with a quota that is used up: a link that leads nowhere in the file's place refuses it."""
    new, _ = with_trials(LOOP % "exit 3", restart(FAST, budget=20), tmp_path)
    line = [*shell, *staged(new, tmp_path)[1:]]
    (tmp_path / "restart" / name).symlink_to(tmp_path / "nowhere" / name)
    done = started(line, tmp_path)
    assert (done.returncode, done.stdout.count("step 12 ")) == (3, 1), done.stderr
    assert not (tmp_path / "restart" / "work").exists()


def test_ranks_in_containers_try_in_the_copy_and_with_their_own_configuration(tmp_path: Path) -> None:
    """Containers start in the job's working directory, and leave out what the runner has exported."""
    text = 'echo x >>"made.$RANK"; echo "${MODAK_LAUNCH_CONFIG##*/}" >>"$TRACE.$RANK"\n' + LOOP % ""
    new, _ = with_trials(text, restart(FAST, budget=20), tmp_path, ranks=2)
    words = staged(new, tmp_path)
    for name in ("0.json", "0.trial.json", "1.json", "1.trial.json"):
        (tmp_path / "restart" / name).write_text("{}")
    (tmp_path / "work").mkdir()
    (tmp_path / "both.sh").write_text('for RANK in 0 1; do export RANK; "$@" & done; wait\n')
    inside = ["sh", "-c", 'cd "$0/work" && exec env -u MODAK_LAUNCH_CONFIG "$@"', str(tmp_path)]
    line = [*restarting.runner(new, str(tmp_path)), "sh", str(tmp_path / "both.sh"), *inside, *words]
    done = started(line, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the program runs with fast" in done.stderr
    for rank in "01":
        assert (tmp_path / "work" / f"made.{rank}").read_text() == "x\n", "the one run's alone"
        *tried, ran = (tmp_path / f"trace.{rank}").read_text().splitlines()
        assert (set(tried), ran) == ({"0.trial.json", "1.trial.json"}, "1.json")


def test_units_beyond_31_bits(tmp_path: Path) -> None:
    new, _ = with_trials(LOOP.replace("step $i", "step $((3000000000 + i))") % "", restart(FAST, units=None), tmp_path)
    done = started(staged(new, tmp_path), tmp_path)
    assert "the program runs with fast" in done.stderr


@pytest.fixture
def german(tmp_path: Path) -> dict[str, str]:
    """Return variables for a locale in which 1.5 is written 1,5."""
    folder = tmp_path / "locales"
    folder.mkdir()
    line = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    if shutil.which(line[0]) is None or subprocess.run(line, capture_output=True).returncode:
        pytest.skip("the locale de_DE cannot be made here")
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}


def test_values_are_compared_alike_in_every_locale(tmp_path: Path, german: dict[str, str]) -> None:
    wrong = candidate("wrong", PAUSE="0.05", LOSS="1.9")
    new, _ = with_trials(LOOP.replace("1.$i", "1.2") % "", restart(wrong), tmp_path)
    done = started(staged(new, tmp_path), tmp_path, **german)
    assert "wrong: different" in done.stderr and "the default stays" in done.stderr


def where(process: Path) -> str:
    """Return a process's working directory; nothing for one that has ended."""
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def test_no_process_is_left_where_a_link_leads_to_the_jobs_folder(tmp_path: Path) -> None:
    """As it leads to many a home directory. A process without its environment is known by where it works alone."""
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    text = '[ -z "$BAD" ] || env -i setsid sleep 600 &\n' + LOOP % ""
    new, _ = with_trials(text, restart(candidate("bad", BAD="1", PAUSE="0.3")), link)
    done = started(staged(new, link), link)
    left = [process for process in Path("/proc").glob("[0-9]*") if where(process).startswith(f"{folder}/restart/")]
    for process in left:
        os.kill(int(process.name), signal.SIGKILL)
    assert "the default stays" in done.stderr and not left


SLOW_RM = """#!/bin/sh
case "$*" in *restart/work*) [ ! -e "$2" ] || { echo removing >>"$TRACE"; sleep 1.5; } ;; esac
exec /bin/rm "$@"
"""


def test_a_signal_to_each_process_of_the_job_leaves_no_copy(tmp_path: Path) -> None:
    """As 'modak cancel' sends it on a plain machine, to those that come later too, and here while a copy is removed."""
    new, _ = with_trials(LOOP.replace("0.15", "60") % "", restart(FAST, budget=100), tmp_path)
    line = staged(new, tmp_path)
    trace, program = tmp_path / "trace", tmp_path / "bin" / "rm"
    program.parent.mkdir()
    program.write_text(SLOW_RM)
    program.chmod(0o755)
    variables = {**os.environ, "TRACE": str(trace), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    job = subprocess.Popen(line, cwd=tmp_path / "here", env=variables, start_new_session=True)
    for word in ("start", "removing"):
        while job.poll() is None and not (trace.exists() and word in trace.read_text()):
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(60) == 143
    assert not (tmp_path / "restart" / "work").exists()


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGXCPU])
def test_a_signal_that_ends_the_job_during_trials_starts_nothing(
    tmp_path: Path, shell: list[str], number: signal.Signals
) -> None:
    """Slurm's --signal, Grid Engine's notify and a limit of processor time: bash, and no other, runs EXIT's trap."""
    new, _ = with_trials(LOOP.replace("0.15", "60") % "", restart(FAST, budget=100), tmp_path)
    line, trace = [*shell, *staged(new, tmp_path)[1:]], tmp_path / "trace"
    job = subprocess.Popen(line, cwd=tmp_path / "here", env={**os.environ, "TRACE": str(trace)}, start_new_session=True)
    while job.poll() is None and not (trace.exists() and "start" in trace.read_text()):
        time.sleep(0.05)
    os.kill(job.pid, number)
    assert job.wait(60) == 143
    assert trace.read_text().count("start") == 1 and not (tmp_path / "restart" / "work").exists()


def test_the_budget_covers_what_copies_take(tmp_path: Path) -> None:
    """A large working directory on a busy file system: copying it takes 2 s, and removing it 3 s."""
    text = '[ -n "$MODAK_TRIAL" ] || date +%s.%N >"$TRACE.ran"\n' + LOOP % ""
    new, _ = with_trials(text, restart(FAST, budget=24, units=None, rounds=30), tmp_path)
    line = staged(new, tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cp").write_text('#!/bin/sh\nsleep 2\nexec /bin/cp "$@"\n')
    (folder / "rm").write_text(SLOW_RM.replace("1.5", "3"))
    for program in folder.iterdir():
        program.chmod(0o755)
    began = time.time()
    done = started(line, tmp_path, PATH=f"{folder}:{os.environ['PATH']}")
    assert "fast: measured" in done.stderr
    assert float((tmp_path / "trace.ran").read_text()) - began <= 24


def test_the_budget_covers_the_reading_of_a_long_output(tmp_path: Path) -> None:
    """BusyBox's awk would take 40 s for what is read of each trial."""
    if shutil.which("busybox") is None:
        pytest.skip("BusyBox is not installed")
    text = '[ -n "$MODAK_TRIAL" ] || date +%s.%N >"$TRACE.ran"\nexec seq -f "step %.0f loss=1.5" 1000000\n'
    new, _ = with_trials(text, restart(FAST, budget=10, units=None), tmp_path)
    line = staged(new, tmp_path)
    program = tmp_path / "bin" / "awk"
    program.parent.mkdir()
    program.symlink_to(str(shutil.which("busybox")))
    began = time.time()
    done = started(line, tmp_path, PATH=f"{program.parent}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1000000)
    assert "as-is: measured" in done.stderr
    assert float((tmp_path / "trace.ran").read_text()) - began <= 10


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
def test_an_error_that_ends_the_shell_does_not_end_the_job(tmp_path: Path, shell: list[str]) -> None:
    """What stands for it here is a number that is none, looked at after the first trial."""
    text = LOOP % 'printf "<%s>" "$@" >>"$TRACE"; exit 3'
    new, _ = with_trials(text, restart(FAST, budget=20, share=0.5), tmp_path)
    line = [*shell, *staged(new, tmp_path)[1:], "12", "two words", "line\nbreak", ""]
    with (tmp_path / "restart" / "settings").open("a") as settings:
        settings.write("modak_share='1 1'\n")
    done = started(line, tmp_path)
    assert (done.returncode, done.stdout.count("step 12 ")) == (3, 1), done.stderr
    assert (tmp_path / "trace").read_text().endswith("<12><two words><line\nbreak><>")
    assert not (tmp_path / "restart" / "work").exists()


def test_units_of_less_than_a_microsecond(tmp_path: Path) -> None:
    text = LOOP.replace("step $i", "step $((i * ${RATE:-100000}))") % ""
    fast = candidate("fast", RATE="4000000")
    new, _ = with_trials(text, restart(fast, units=None, tolerance=1.0), tmp_path)
    done = started(staged(new, tmp_path), tmp_path)
    result = parse_restart((tmp_path / restarting.RECORD).read_text(), new.restart)
    assert (result.chosen, result.incomplete) == ("fast", []), done.stderr
    assert 20 < result.gain < 80
    assert 1e-6 < result.trials[0].steady < 3e-6 and 1e-8 < result.trials[1].steady < 1e-7


def test_a_program_with_many_arguments_starts_at_once(tmp_path: Path) -> None:
    text = '[ -n "$MODAK_TRIAL" ] || { date +%s.%N; echo "$#"; } >"$TRACE.ran"\n' + LOOP % ""
    new, _ = with_trials(text, restart(FAST, budget=10), tmp_path)
    began = time.time()
    done = started([*staged(new, tmp_path), "12", *["word"] * 20003], tmp_path)
    when, count = (tmp_path / "trace.ran").read_text().split()
    assert (done.returncode, count) == (0, "20004")
    assert "the program runs with fast" in done.stderr
    assert float(when) - began <= 10


def test_an_attempt_that_was_given_up_during_its_trials_runs_nothing(tmp_path: Path) -> None:
    """As where a node was taken for dead: the job has been put aside meanwhile, and its next attempt has begun."""
    new, _ = with_trials(LOOP % "", restart(FAST, budget=20), tmp_path)
    folder = tmp_path / "restart"
    job = subprocess.Popen(
        staged(new, tmp_path),
        cwd=tmp_path / "here",
        env={**os.environ, "TRACE": str(tmp_path / "trace")},
        stdout=subprocess.PIPE,
        text=True,
    )
    while job.poll() is None and not (folder / "log").exists():
        time.sleep(0.05)
    (folder / "record").rename(tmp_path / "restart.record")
    shutil.rmtree(folder / "claim")
    (folder / "claim").mkdir()
    output, _ = job.communicate(timeout=60)
    assert (job.returncode, output) == (1, "")


def test_a_candidate_that_hangs_when_it_is_measured_again_does_not_win(tmp_path: Path) -> None:
    hangs = '[ -z "$BAD" ] || { [ ! -e "$TRACE.bad" ] || exec sleep 30; : >"$TRACE.bad"; }\n'
    new, _ = with_trials(hangs + LOOP % "", restart(candidate("bad", BAD="1", PAUSE="0.05"), budget=16), tmp_path)
    done = started(staged(new, tmp_path), tmp_path)
    assert "bad: measured" in done.stderr and "bad: stopped" in done.stderr
    assert "the default stays" in done.stderr and done.stdout.count("step 12 ") == 1
    result = parse_restart((tmp_path / restarting.RECORD).read_text(), new.restart)
    assert [trial.exit_code for trial in result.trials if trial.state == "stopped"] == [None]


def test_a_candidate_that_hangs_once_its_rate_is_known_does_not_win(tmp_path: Path) -> None:
    hangs = LOOP.replace("sleep", '[ "$BAD-$i" != 1-9 ] || exec sleep 30; sleep') % ""
    bad = candidate("bad", BAD="1", PAUSE="0.1")
    new, _ = with_trials(hangs, restart(bad, budget=16, window=3.0), tmp_path)
    done = started(staged(new, tmp_path), tmp_path)
    assert "bad: stopped" in done.stderr and "it made no more progress" in done.stderr
    assert "the default stays" in done.stderr and done.stdout.count("step 12 ") == 1
