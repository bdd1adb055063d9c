"""A job's whole life on this machine, with the scheduler that needs nothing: real processes throughout."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobplans import requested, source
from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.remote import StepError
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.jobs.status import sentence
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.local import LocalTransport
from transports import Counting, Noisy, Notes


def runs(folder: Path) -> int:
    """Return how often the application has been started."""
    trace = folder / "trace"
    return len(trace.read_text().splitlines()) if trace.exists() else 0


def carry_out(jobs: Jobs, plan: JobRequest) -> tuple[Present, JobResult]:
    present = jobs.present(plan)
    return present, jobs.wait([present])[0]


def leader(present: Present) -> int:
    return int(present.job.id.partition("-")[0])


def alive(session: int) -> list[str]:
    """Return the states of the session's processes; one that has ended and waits to be collected is dead."""
    listed = subprocess.run(["ps", "-e", "-o", "sess=,stat="], capture_output=True, text=True, check=True).stdout
    return [
        state for number, state in map(str.split, listed.splitlines()) if int(number) == session and state[0] != "Z"
    ]


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


def test_inputs_outputs_metrics_and_log(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("some input\n")
    item = source("data/in.txt", tmp_path / "in.txt")
    line = 'cat data/in.txt; mkdir out; echo a >out/a; echo b >"out/b c"; echo "{\\"accuracy\\": 0.5}" >metrics.json'
    deployed = requested(
        ["sh", "-c", line], tmp_path / "space", sources=(item,), outputs=["out"], metrics="metrics.json"
    )
    present = jobs.present(deployed, [item])
    (result,) = jobs.wait([present])
    fetched = jobs.fetch_results(present.job, result, tmp_path / "results")
    place = tmp_path / "results" / "probe"
    assert fetched.changed
    assert fetched.result.state == "completed"
    assert fetched.result.results == str(place)
    assert fetched.result.metrics == {"accuracy": 0.5}
    assert fetched.result.seconds is not None
    assert fetched.result.submitted is not None
    assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == {
        "job.json",
        "metrics.json",
        "out/a",
        "out/b c",
        "output.log",
        "plan.json",
    }
    assert (place / "output.log").read_text() == "some input\n"
    assert deployed.document is not None
    assert (place / "plan.json").read_bytes() == deployed.document.text
    assert JobResult.model_validate_json((place / "job.json").read_text()) == fetched.result
    assert not jobs.fetch_results(present.job, result, tmp_path / "results").changed
    folder = Path(present.job.spec.directory)
    assert folder == tmp_path / "space" / "runs" / f"probe-{deployed.tag.removeprefix('modak-')}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_second_run_changes_nothing(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    deployed = shell("echo text >out", outputs=["out"])
    present, result = carry_out(jobs, deployed)
    assert jobs.fetch_results(present.job, result, tmp_path / "results").changed
    out = tmp_path / "results" / "probe" / "out"
    written = out.stat().st_mtime_ns
    again, result = carry_out(jobs, deployed)
    assert not again.made
    assert again.job.id == present.job.id
    assert not jobs.fetch_results(again.job, result, tmp_path / "results").changed
    assert out.stat().st_mtime_ns == written
    assert runs(tmp_path) == 1
    out.write_text("spoilt")
    assert jobs.fetch_results(again.job, result, tmp_path / "results").changed
    assert out.read_text() == "text\n"


def test_few_round_trips(hasty: Timeouts, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    """One look, one upload, one submission, the polls, one download."""
    transport = Counting()
    jobs = Jobs(transport, timeouts=hasty)
    deployed = shell("sleep 0.5; echo x >out", outputs=["out"])
    present, result = carry_out(jobs, deployed)
    jobs.fetch_results(present.job, result, tmp_path / "results")
    assert transport.trips < 12
    transport.trips = 0
    present, result = carry_out(jobs, deployed)
    jobs.fetch_results(present.job, result, tmp_path / "results")
    assert transport.trips == 3


def test_many_jobs_are_watched_with_the_questions_of_one(hasty: Timeouts, shell: Callable[..., JobRequest]) -> None:
    transport = Counting()
    jobs = Jobs(transport, timeouts=hasty)
    present = [jobs.present(shell("sleep 0.3", name=f"probe{number}")) for number in range(8)]
    transport.trips = 0
    results = jobs.wait(present)
    assert [result.id for result in results] == [item.job.id for item in present]
    assert {result.state for result in results} == {"completed"}
    assert transport.trips < 8


def test_failing_application(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    present, result = carry_out(jobs, shell("echo why; exit 3", outputs=["never"]))
    fetched = jobs.fetch_results(present.job, result, tmp_path / "results").result
    assert (fetched.state, fetched.exit_code) == ("failed", 3)
    assert sentence(fetched) == (
        f"job {result.id} ({result.tag}) failed: the application ended with exit code 3; "
        f"what it wrote is in {tmp_path}/results/probe"
    )
    assert (tmp_path / "results" / "probe" / "output.log").read_text() == "why\n"


def test_killed_from_outside_is_cancelled(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    present = jobs.present(shell("sleep 60"))
    until(lambda: runs(tmp_path) == 1)
    os.killpg(leader(present), signal.SIGTERM)
    (result,) = jobs.wait([present])
    assert (result.state, result.signal) == ("cancelled", 15)


def test_killed_without_a_word_is_lost(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    present = jobs.present(shell("sleep 60"))
    until(lambda: runs(tmp_path) == 1)
    os.killpg(leader(present), signal.SIGKILL)
    (result,) = jobs.wait([present])
    assert result.state == "lost"
    assert "neither the queue nor an exit record knows of it" in sentence(result)


def test_wall_time(jobs: Jobs, shell: Callable[..., JobRequest]) -> None:
    result = carry_out(jobs, shell("sleep 60", job={"wall_time": 1}))[1]
    assert result.state == "timeout"


def test_states_and_output_are_told_as_they_come(
    hasty: Timeouts, shell: Callable[..., JobRequest], tmp_path: Path
) -> None:
    notes = Notes()
    jobs = Jobs(LocalTransport(), timeouts=hasty, reporter=notes)
    line = f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; printf 'last, ü and no end of line'"
    present = jobs.present(shell(line))
    watched: list[list[JobResult]] = []
    notes.notice = lambda text: None  # type: ignore[method-assign]
    original = notes.output

    def release(job: object, text: str) -> None:
        original(job, text)
        (tmp_path / "go").touch()

    notes.output = release  # type: ignore[method-assign]
    watched.append(jobs.wait([present], follow=True))
    assert notes.states == [("running", ""), ("completed", "")]
    assert notes.text == "first\nlast, ü and no end of line"


def test_waiting_may_end_before_the_job(jobs: Jobs, shell: Callable[..., JobRequest]) -> None:
    deployed = shell("sleep 60")
    present = jobs.present(deployed)
    with pytest.raises(JobError, match=r"is running after 0\.3 s of waiting and goes on"):
        jobs.wait([present], timeout=0.3)
    assert jobs.see(present.job).state == "running"
    assert jobs.absent(deployed)


def test_restarted_is_absent_and_present_again(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    deployed = shell("[ ! -e left-over ] && touch left-over")
    assert carry_out(jobs, deployed)[1].state == "completed"
    assert jobs.absent(deployed)
    present, result = carry_out(jobs, deployed)
    assert (present.made, result.state, runs(tmp_path)) == (True, "completed", 2)


def test_absent_ends_a_running_job_and_removes_nothing_else(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path
) -> None:
    deployed = shell("sleep 60")
    other = jobs.present(shell("exit 0"))
    present = jobs.present(deployed)
    until(lambda: runs(tmp_path) == 2)
    folder = f"the folder {present.job.spec.directory} of job {present.job.id}"
    assert jobs.doomed(deployed) == [f"job {present.job.id}", folder]
    assert jobs.absent(deployed)
    assert jobs.doomed(deployed) == []
    assert not Path(present.job.spec.directory).exists()
    assert Path(other.job.spec.directory).exists()
    assert not alive(leader(present))
    assert not jobs.absent(deployed)
    assert jobs.find(deployed) is None


def test_last_job_takes_the_folder_of_runs_with_it(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path
) -> None:
    deployed = shell("true")
    present, _ = carry_out(jobs, deployed)
    assert jobs.doomed(deployed) == [f"the folder {present.job.spec.directory} of job {present.job.id}"]
    assert jobs.absent(deployed)
    assert list((tmp_path / "space").iterdir()) == []


def test_folder_that_is_not_a_jobs_stays(jobs: Jobs, shell: Callable[..., JobRequest]) -> None:
    deployed = shell("true")
    folder = Path(jobs.prepare(deployed).spec.directory)
    folder.mkdir(parents=True)
    (folder / "thesis.tex").touch()
    with pytest.raises(StepError, match="does not say that it is this job's folder: it stays"):
        jobs.absent(deployed)
    with pytest.raises(StepError, match="is there already, and is no job's folder: move it away"):
        jobs.present(deployed)
    assert (folder / "thesis.tex").exists()


def test_declared_output_that_was_not_written(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    present, result = carry_out(jobs, shell("touch there", outputs=["there", "model.h5"]))
    with pytest.raises(JobError, match=r"completed without writing 'model\.h5', which application\.outputs declares"):
        jobs.fetch_results(present.job, result, tmp_path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "m.json: not valid JSON: Expecting property name"),
        ("[1, 2]", "m.json: a JSON list; it must be an object"),
        ('{"loss": NaN}', "m.json: not valid JSON: NaN is not a number in JSON"),
    ],
)
def test_faulty_metrics(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, text: str, fault: str) -> None:
    present, result = carry_out(jobs, shell(f"echo '{text}' >m.json", metrics="m.json"))
    with pytest.raises(JobError, match=fault):
        jobs.fetch_results(present.job, result, tmp_path)


@pytest.mark.parametrize(
    ("application", "fault"),
    [
        ({"outputs": ["../secret"]}, r"application\.outputs: '\.\./secret' is not below"),
        ({"outputs": ["/etc/passwd"]}, "is not below"),
        (
            {"metrics": "plan.json"},
            r"application\.metrics: 'plan\.json' is the name of a file that modak writes",
        ),
        (
            {"outputs": ["objects.json"]},
            r"application\.outputs: 'objects\.json' is the name of a file that modak writes",
        ),
    ],
)
def test_outputs_that_cannot_be(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, application: dict[str, object], fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        jobs.present(shell("true", **application))
    assert not (tmp_path / "space").exists()


def test_source_that_changed_after_the_plan(jobs: Jobs, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("before")
    item = source("in.txt", file)
    file.write_text("after")
    with pytest.raises(InputError, match=r"in\.txt has changed since the plan was made"):
        jobs.present(requested(["true"], tmp_path / "space", sources=(item,)), [item])
    with pytest.raises(InputError, match=r"the file 'in\.txt' of the Plan not found"):
        jobs.present(requested(["true"], tmp_path / "space", sources=(item,)))
    assert not (tmp_path / "space").exists()


def test_names_that_a_shell_would_read(jobs: Jobs, tmp_path: Path) -> None:
    name = "a $(touch oops) 'b' \"c\" ;&| `d` \\ ü {{ 1 }} -e"
    file = tmp_path / "in"
    file.write_text("x\n")
    item = source(f"-sub dir/{name}", file)
    deployed = requested(
        ["cp", f"./-sub dir/{name}", name], tmp_path / "sp ace; $(id)", sources=(item,), outputs=[name]
    )
    present = jobs.present(deployed, [item])
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path / "results")
    assert (tmp_path / "results" / "probe" / name).read_text() == "x\n"
    assert not list(tmp_path.rglob("oops"))


def test_login_that_greets(hasty: Timeouts, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    jobs = Jobs(Noisy(), timeouts=hasty)
    deployed = shell("sleep 60")
    assert jobs.preview(deployed).job is None
    assert jobs.present(deployed).made
    assert jobs.absent(deployed)
    deployed = shell("echo x >out", outputs=["out"])
    present, result = carry_out(jobs, deployed)
    assert jobs.fetch_results(present.job, result, tmp_path).result.state == "completed"


def test_workspace_must_be_a_clear_place(jobs: Jobs) -> None:
    with pytest.raises(InputError, match=r"target\.workspace 'relative' is neither an absolute path nor one below"):
        jobs.present(requested(["true"], Path("relative")))


def test_workspace_that_cannot_be_made(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match=r"cannot be made: (Permission denied|Not a directory|File exists)$"):
        jobs.present(requested(["true"], tmp_path / "file"))


class Bare(LocalTransport):
    """A machine with the POSIX tools that the steps use, and none beyond."""

    TOOLS = (
        "awk cat cksum chmod comm cut date dd env find grep id ln ls mkdir mktemp mv od ps rm rmdir sed sh sleep sort "
        "tail tar touch tr uname wc setsid cp kill nohup"
    )

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        for tool in self.TOOLS.split():
            found = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True).stdout.strip()
            if found.startswith("/"):
                (folder / tool).symlink_to(found)
        self._folder = folder

    def run(self, command: str, **rest: object):  # type: ignore[no-untyped-def]
        return super().run(f"PATH={self._folder}; export PATH\n{command}", **rest)  # type: ignore[arg-type]


def test_machine_without_any_tool_for_sha256_or_base64(hasty: Timeouts, tmp_path: Path) -> None:
    jobs = Jobs(Bare(tmp_path / "bin"), timeouts=hasty)
    (tmp_path / "in.txt").write_text("input\n")
    item = source("in.txt", tmp_path / "in.txt")
    deployed = requested(["cp", "in.txt", "out"], tmp_path / "space", sources=(item,), outputs=["out"])
    for made in (True, False):
        present = jobs.present(deployed, [item])
        (result,) = jobs.wait([present])
        assert present.made is made
        assert jobs.fetch_results(present.job, result, tmp_path / "results").changed is made
    assert (tmp_path / "results" / "probe" / "out").read_text() == "input\n"
    assert jobs.absent(deployed)


def test_undeploying_leaves_a_process_alone_that_only_quotes_the_folder(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path
) -> None:
    deployed = shell("true")
    present, _ = carry_out(jobs, deployed)
    note = f"x\nMODAK_DIRECTORY={present.job.spec.directory}\ny"
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "NOTE": note})
    try:
        assert jobs.absent(deployed)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
