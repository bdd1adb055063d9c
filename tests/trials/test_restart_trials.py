"""Restart trials: real jobs on this machine, with good candidates and with each kind of bad one."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.jobs import restarting
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.files import paths_of
from modak_deploy.jobs.restarted import parse_restart
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.trials import RestartPlan
from modak_deploy.transport.local import LocalTransport
from trial_parts import FAST, LOOP, SLOW, candidate, leaves_nothing, restart, staged, states, with_trials

Run = Callable[..., tuple[JobRequest, JobResult, str]]


@pytest.fixture
def jobs() -> Jobs:
    """Return the jobs of this machine."""
    return Jobs(LocalTransport(), timeouts=Timeouts(pause=0.02, settle=0.0, lost=0.5))


@pytest.fixture
def run(jobs: Jobs, tmp_path: Path) -> Run:
    """Return the function that runs a program with trials and returns its Plan, its end and its output."""

    def carry_out(text: str, trials: RestartPlan, **rest: Any) -> tuple[JobRequest, JobResult, str]:
        new, items = with_trials(text, trials, tmp_path, **rest)
        present = jobs.present(new, items)
        (result,) = jobs.wait([present])
        result = jobs.fetch_results(present.job, result, tmp_path / "results").result
        assert result.restart is not None
        leaves_nothing(result)
        return new, result, Path(result.directory, "output.log").read_text()

    return carry_out


def test_the_fastest_candidate_runs_the_program(run: Run, tmp_path: Path) -> None:
    new, result, output = run(LOOP % 'echo "$PAUSE"; pwd', restart(SLOW, FAST))
    tried = result.restart
    assert (result.state, tried.chosen, tried.levers) == ("completed", "fast", ["fast"]), output
    assert states(result) == {"as-is": "measured", "slow": "beaten", "fast": "measured"}
    assert tried.gain > 1.5 and tried.seconds < 30 and tried.drift is not None
    assert output.endswith(f"step 12 loss=1.12\n0.05\n{result.directory}/work\n")
    assert set(restarting.files(new)) <= set(paths_of(new))
    starts = (tmp_path / "trace").read_text().count("start")
    assert starts == len(tried.trials) + 1


@pytest.mark.parametrize("quick", [("PAUSE=0", 1), ('[ ! -e "$TRACE.seen" ] || PAUSE=0; : >"$TRACE.seen"', 2)], ids=str)
def test_the_whole_time_counts_of_what_ends_between_two_looks(run: Run, quick: tuple[str, int]) -> None:
    text, number = quick
    trials = restart(candidate("quick", PAUSE="0.05", QUICK="1"))
    _, result, output = run(f'[ -z "$QUICK" ] || {{ {text}; }}\n' + LOOP % "", trials)
    assert (result.state, result.restart.chosen) == ("completed", "quick"), output
    ended = [trial for trial in result.restart.trials if trial.name == "quick"][number - 1]
    assert (ended.state, ended.units, ended.exit_code) == ("measured", 12, 0)
    assert ended.whole


def test_what_ends_between_two_looks_is_not_faster_for_a_unit_that_nobody_counted(run: Run) -> None:
    """It does three units at once after 1.7 s, and the default takes 1.5 s: two thirds of 1.7 s are less."""
    steps = 'for i in 1 2 3; do echo "step $i loss=1.$i"; done'
    text = f'[ -z "$BURST" ] || {{ sleep 1.7; {steps}; exit; }}\n' + LOOP.replace("0.15", "0.5").replace(":-12", ":-3")
    _, result, output = run(text % "", restart(candidate("burst", BURST="1"), units=3))
    (ended,) = [trial for trial in result.restart.trials if trial.name == "burst"]
    assert ended.whole and ended.start == pytest.approx(ended.steady, abs=0.02), output
    assert (result.state, result.restart.chosen) == ("completed", "as-is"), output


def test_candidates_that_vary_are_still_better_than_the_default(run: Run) -> None:
    varies = '[ -z "$FIRST" ] || { [ ! -e "$TRACE.$FIRST" ] || PAUSE=0.12; : >"$TRACE.$FIRST"; }\n'
    trials = restart(candidate("one", PAUSE="0.05", FIRST="1"), candidate("two", PAUSE="0.05", FIRST="2"), budget=60)
    _, result, output = run(varies + LOOP.replace("0.15", "0.5") % "", trials)
    assert (result.state, result.restart.chosen in ("one", "two")) == ("completed", True), output
    assert 2 < result.restart.gain < 5, "the slower one of its measurements counts"


def test_the_numbers_that_a_program_prints_need_not_end_with_the_documents_units(run: Run) -> None:
    _, result, output = run(LOOP.replace("step $i", "step $((i - 1))") % "", restart(FAST))
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output
    assert "failed" not in states(result).values()


def test_a_long_text_after_the_last_unit_hides_none(run: Run) -> None:
    text = LOOP % "head -c 70000 /dev/zero | tr '\\0' x"
    _, result, output = run(text, restart(FAST))
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output[:500]


def test_the_default_stays_where_nothing_is_faster(run: Run) -> None:
    _, result, output = run(LOOP % 'echo "<${PAUSE-}>"', restart(SLOW))
    assert (result.state, result.restart.chosen) == ("completed", "as-is")
    assert "<>" in output


LEAK = 'BEGIN { s = "0123456789abcdef"; while (length(s) < 6e8) s = s s; while (1) n++ }'
FAULTS = {
    "crashes": ("[ -z \"$BAD\" ] || exit 7\n" + LOOP % "", "failed"),
    "crashes in the middle": (LOOP.replace("sleep", '[ "$BAD-$i" != 1-2 ] || kill -9 $$; sleep') % "", "failed"),
    "hangs": ("[ -z \"$BAD\" ] || exec sleep 1000\n" + LOOP % "", "beaten"),
    "hangs, deaf": ("[ -z \"$BAD\" ] || { trap '' TERM; while :; do sleep 1; done; }\n" + LOOP % "", "beaten"),
    "leaves a daemon": ("[ -z \"$BAD\" ] || setsid sleep 90 &\n" + LOOP % "", "measured"),
    "leaves a daemon without its environment": (
        "[ -z \"$BAD\" ] || env -i setsid sleep 90 &\n" + LOOP % "", "measured"),
    "another result": (LOOP.replace("${LOSS:-1.$i}", "${BAD:+9}1.$i") % "", "different"),
    "a result that is not a number": (LOOP.replace("${LOSS:-1.$i}", "${BAD:+nan}${BAD:-1.$i}") % "", "different"),
    "ends early, as if it were done": ("[ -z \"$BAD\" ] || set -- 3\n" + LOOP % "", "failed"),
    "ends without a unit": ("[ -z \"$BAD\" ] || exit 0\n" + LOOP % "", "failed"),
    "leaks": ("[ -z \"$BAD\" ] || exec awk \"$LEAK\"\n" + LOOP % "", "failed"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_candidate_costs_its_trial_alone(run: Run, fault: str) -> None:
    text, state = FAULTS[fault]
    _, result, output = run(text, restart(candidate("bad", BAD="1", PAUSE="0.05", LEAK=LEAK), budget=40))
    assert (result.state, states(result)["bad"]) == ("completed", state), output
    if state != "measured":
        assert result.restart.chosen == "as-is"
    assert result.restart.seconds < 40


def test_a_trial_works_in_a_copy_and_reads_nothing(run: Run) -> None:
    text = "echo seen >>kept; read -r line && exit 9; ls | tr '\\n' ' '; cat kept\n" + LOOP % ""
    _, result, output = run(text, restart(FAST))
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output
    assert (Path(result.directory) / "work" / "kept").read_text() == "seen\n"


def test_the_exit_code_is_the_programs_own(run: Run) -> None:
    _, result, _ = run("sleep 2; exit 3", restart(FAST))
    assert (result.state, result.exit_code, result.restart.chosen) == ("failed", 3, "as-is")
    assert [trial.exit_code for trial in result.restart.trials] == [3]


@pytest.mark.parametrize("budget", [1, 4])
def test_the_budget_is_kept(run: Run, budget: int) -> None:
    _, result, output = run(LOOP % "", restart(SLOW, FAST, budget=budget))
    assert result.state == "completed", output
    assert result.restart.seconds <= budget


def test_a_share_of_a_short_job_is_no_time_for_trials(run: Run) -> None:
    _, result, _ = run(LOOP % "", restart(SLOW, FAST, share=0.05))
    assert (result.state, result.restart.chosen) == ("completed", "as-is")
    assert len(result.restart.trials) == 1


def test_a_short_run_is_timed_as_a_whole(run: Run) -> None:
    short = {"arguments": ["program.sh", "3"], "replaced": 1}
    trials = restart(FAST, SLOW, signal="whole", units=None, progress=None, **short)
    _, result, output = run(LOOP % 'echo "$# $1"', trials)
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output
    assert output.endswith("0 \n")


def test_the_wall_time_ends_trials_too(run: Run) -> None:
    text = LOOP.replace("sleep", "sleep 100; sleep") % ""
    _, result, _ = run(text, restart(FAST, budget=60), job={"wall_time": 6})
    assert result.restart.chosen == "as-is" or result.state == "timeout"


@pytest.mark.parametrize("shell", [["dash"], ["bash"], ["busybox", "sh"]], ids=" ".join)
def test_each_shell_tries(tmp_path: Path, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    new, _ = with_trials(LOOP % 'echo "<${PAUSE-}>"', restart(SLOW, FAST), tmp_path)
    line = [*shell, *staged(new, tmp_path)[1:]]
    environment = {**os.environ, "TRACE": str(tmp_path / "trace")}
    done = subprocess.run(line, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("<0.05>\n"), done.stderr
    found = parse_restart((tmp_path / restarting.RECORD).read_text(), new.restart)
    assert found.chosen == "fast" and not found.incomplete
