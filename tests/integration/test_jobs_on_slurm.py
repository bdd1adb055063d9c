"""The life of jobs on the real Slurm, over ssh without Ansible, with parts of it taken away."""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import requested, source
from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Polling
from modak_deploy.transport.base import Completed
from modak_deploy.transport.ssh import SshTransport
from outages import without_login, without_scheduler
from rig import Rig
from transports import Notes

HASTY = replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2)


class CountingSsh(SshTransport):
    """Counts round trips."""

    trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.trips += 1
        return super().run(command, stdin=stdin, timeout=timeout)


@pytest.fixture(scope="module")
def transport(real_slurm: Rig) -> Iterator[CountingSsh]:
    with CountingSsh("slurm-login", config=real_slurm.ssh_config) as transport:
        yield transport


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def jobs(transport: CountingSsh, notes: Notes) -> Jobs:
    return Jobs(transport, timeouts=HASTY, reporter=notes)


@pytest.fixture
def shell(request: pytest.FixtureRequest) -> Callable[..., JobRequest]:
    """Return the function that makes the request for a shell line, under a name that no run before had."""
    name = f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:30]}-{secrets.token_hex(4)}"
    return lambda line, **rest: on_slurm(line, name, **rest)


def on_slurm(line: str, name: str, **rest: Any) -> JobRequest:
    return requested(
        ["sh", "-c", line],
        Path("~/.modak"),
        name=name,
        scheduler="slurm",
        polling=Polling(first=0.3, maximum=1.0),
        **rest,
    )


def carry_out(jobs: Jobs, deployed: JobRequest) -> tuple[Present, JobResult]:
    present = jobs.present(deployed)
    return present, jobs.wait([present])[0]


@pytest.fixture(scope="module", autouse=True)
def early(transport: CountingSsh) -> dict[str, Present]:
    """Jobs that take their time to end or to be forgotten; the last tests come back to them."""
    jobs = Jobs(transport, timeouts=HASTY)
    stamp = str(time.time())
    plans = {
        "forgotten": on_slurm(f"exit 5 # {stamp}", "forgotten"),
        "over": on_slurm(f"echo begun; sleep 300 # {stamp}", "over", job={"wall_time": 60}),
    }
    return {name: jobs.present(deployed) for name, deployed in plans.items()}


def test_whole_life(
    jobs: Jobs, transport: CountingSsh, shell: Callable[..., JobRequest], tmp_path: Path, real_slurm: Rig
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("input\n")
    item = source("in.txt", file)
    deployed = shell('cp in.txt out; echo "{\\"a\\": 1}" >m.json', sources=(item,), outputs=["out"], metrics="m.json")
    transport.trips = 0
    present = jobs.present(deployed, [item])
    (result,) = jobs.wait([present])
    fetched = jobs.fetch_results(present.job, result, tmp_path).result
    assert transport.trips < 12
    assert (fetched.state, fetched.metrics, fetched.host) == ("completed", {"a": 1}, "n1")
    assert (tmp_path / deployed.name / "out").read_text() == "input\n"
    assert not jobs.present(deployed, [item]).made
    assert jobs.absent(deployed)
    assert not jobs.absent(deployed)
    assert not Path(real_slurm.home, ".modak", "runs", Path(present.job.spec.directory).name).exists()
    # The queue still remembers the job, and a new one is made all the same.
    again, result = (present := jobs.present(deployed, [item])), jobs.wait([present])[0]
    assert (again.made, result.state) == (True, "completed")


@pytest.mark.parametrize("way", ["direct", "over a jump host"])
def test_large_files_by_rsync(way: str, real_slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, host = real_slurm.ssh_config, "slurm-login"
    if way != "direct":
        text = config.read_text()
        config, host = tmp_path / "config", "inner"
        config.write_text(f"{text}\n{text.replace('Host slurm-login', 'Host inner')}    ProxyJump slurm-login\n")
    file = tmp_path / "in put"
    file.write_bytes(os.urandom(40 * 1024**2))
    item = source("large in", file)
    # Nothing but rsync may carry them.
    for name in ("put", "fetch"):
        monkeypatch.setattr(SshTransport, name, lambda *_: pytest.fail("not by rsync"))
    with SshTransport(host, config=config) as transport:
        jobs = Jobs(transport, timeouts=HASTY)
        line = f"cp 'large in' 'large out' # {way} {time.time()}"
        deployed = on_slurm(line, "large", sources=(item,), outputs=["large out"])
        present = jobs.present(deployed, [item])
        jobs.fetch_results(present.job, jobs.wait([present])[0], tmp_path)
        assert jobs.absent(deployed)
    assert (tmp_path / "large" / "large out").read_bytes() == file.read_bytes()


def test_array_of_twenty(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    deployed = shell("echo task $MODAK_TASK", job={"array": "1-20"})
    present, result = carry_out(jobs, deployed)
    jobs.fetch_results(present.job, result, tmp_path)
    assert result.state == "completed"
    logs = sorted(path.read_text() for path in (tmp_path / deployed.name).glob("output.log.*"))
    assert logs == sorted(f"task {number}\n" for number in range(1, 21))


def test_chain_and_a_dependency_that_is_never_satisfied(jobs: Jobs, shell: Callable[..., JobRequest]) -> None:
    first = jobs.present(shell("exit 4"))
    after = jobs.present(shell("true", job={"dependency": [f"afterany:{first.job.id}"]}))
    never = jobs.present(shell("true", job={"dependency": [f"afterok:{first.job.id}"]}))
    states = [result.state for result in jobs.wait([first, after, never])]
    assert states == ["failed", "completed", "dependency_never_satisfied"]


def numbers(rig: Rig, name: str) -> list[tuple[int, str]]:
    """Return the ids and states of the real jobs with that name, oldest first."""
    return sorted((int(number), state) for number, (its_name, state) in rig.all_jobs().items() if its_name == name)


def test_controllers_that_deploy_a_failed_job_again_make_one_new_attempt(
    jobs: Jobs, shell: Callable[..., JobRequest], real_slurm: Rig, tmp_path: Path
) -> None:
    """Executions are counted by the program itself, outside the job's folder."""
    token = secrets.token_hex(4)
    trace, cause = (f"{real_slurm.home}/{word}-{token}" for word in ("trace", "cause"))
    deployed = shell(f"echo $SLURM_JOB_ID >>{trace}; sleep 1; ls {cause}")
    first, result = carry_out(jobs, deployed)
    assert result.state == "failed"
    Path(cause).touch()
    start, found, failures = threading.Barrier(3), [], []

    def control() -> None:
        try:
            with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
                mine = Jobs(transport, timeouts=HASTY)
                start.wait()
                present = mine.present(deployed)
                found.append((present.made, mine.wait([present])[0]))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=control) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [made for made, _ in found].count(True) == 1
    (number,) = {end.id for _, end in found}
    assert {(end.state, end.attempt) for _, end in found} == {("completed", 2)}
    assert Path(trace).read_text().split() == [first.job.id, number]
    assert jobs.absent(deployed)
    Path(trace).unlink()
    Path(cause).unlink()


def test_job_that_can_never_start_is_cancelled_before_it_is_run_again(
    jobs: Jobs, shell: Callable[..., JobRequest], real_slurm: Rig
) -> None:
    parent = shell("exit 4")
    first, _ = carry_out(jobs, parent)
    never = on_slurm("true", f"{parent.name}-x", job={"dependency": [f"afterok:{first.job.id}"]})
    present, result = carry_out(jobs, never)
    assert result.state == "dependency_never_satisfied"
    again, result = carry_out(jobs, never)
    assert (again.made, result.attempt) == (True, 2)
    # Slurm forgets what has ended after some time, and then a dependency on it holds nothing back.
    assert dict(numbers(real_slurm, never.name)).get(int(present.job.id), "CANCELLED") == "CANCELLED"
    assert jobs.absent(never)
    assert set(dict(numbers(real_slurm, never.name)).values()) <= {"CANCELLED", "COMPLETED"}, "it is still in the queue"


def test_gpus(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    deployed = shell("echo $SLURM_GPUS_ON_NODE", job={"partition": "gpu", "gpus": 2}, gpus=2)
    present, result = carry_out(jobs, deployed)
    jobs.fetch_results(present.job, result, tmp_path)
    assert (tmp_path / deployed.name / "output.log").read_text() == "2\n"


def test_cancelled_while_it_waits(jobs: Jobs, shell: Callable[..., JobRequest], real_slurm: Rig, notes: Notes) -> None:
    present = jobs.present(shell("true", job={"begin": "2099-01-01T00:00"}))
    assert jobs.see(present.job).state == "queued"
    real_slurm.ssh(f"scancel {present.job.id}")
    (result,) = jobs.wait([present])
    assert (result.state, result.exit_code) == ("cancelled", None)


def test_scheduler_restarted_in_the_middle(
    jobs: Jobs, shell: Callable[..., JobRequest], real_slurm: Rig, notes: Notes
) -> None:
    present = jobs.present(shell("sleep 6"))
    with without_scheduler(real_slurm), pytest.raises(JobError, match="goes on"):
        jobs.wait([present], timeout=2.0)
    assert jobs.wait([present])[0].state == "completed"
    assert any("no word of the job" in text for text in notes.notices)


def test_submission_while_the_scheduler_is_down(
    transport: CountingSsh, shell: Callable[..., JobRequest], real_slurm: Rig
) -> None:
    deployed = shell("true")
    with without_scheduler(real_slurm), pytest.raises(TargetError, match="Slurm does not answer"):
        Jobs(transport, timeouts=replace(HASTY, submission=0.5)).present(deployed)
    assert carry_out(Jobs(transport, timeouts=HASTY), deployed)[1].state == "completed"
    names = [name for name, _ in real_slurm.all_jobs().values()]
    assert names.count(deployed.name) == 1


def test_connection_lost_for_a_while(
    jobs: Jobs, shell: Callable[..., JobRequest], real_slurm: Rig, notes: Notes
) -> None:
    present = jobs.present(shell("sleep 4"))
    with without_login(real_slurm), pytest.raises(JobError, match="goes on"):
        jobs.wait([present], timeout=2.0)
    assert jobs.wait([present])[0].state == "completed"
    assert any("no word of the job" in text for text in notes.notices)


def test_unknown_host_key_is_refused(real_slurm: Rig, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        real_slurm.ssh_config.read_text()
        .replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no")
        .replace(f"{real_slurm.folder}/client/known_hosts", str(tmp_path / "none"))
    )
    with pytest.raises(TargetError, match=r"host key of .* is not in known_hosts: log in once with ssh"):
        SshTransport("slurm-login", config=config).run("true")


def test_user_without_a_key_there(real_slurm: Rig) -> None:
    with pytest.raises(TargetError, match="accepts none of the keys offered"):
        SshTransport("nobody@slurm-login", config=real_slurm.ssh_config).run("true")


def test_way_over_a_jump_host(real_slurm: Rig, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = real_slurm.ssh_config.read_text()
    config.write_text(f"{text}\n{text.replace('Host slurm-login', 'Host inner')}    ProxyJump slurm-login\n")
    data = bytes(range(256)) * 5000
    with SshTransport("inner", config=config) as transport:
        assert transport.run("cat | wc -c; echo e >&2; exit 3", stdin=data) == Completed(3, f"{len(data)}\n", "e\n")
        file = tmp_path / "file"
        file.write_bytes(data)
        transport.put(file, str(real_slurm.home / "copied"))
        transport.fetch(str(real_slurm.home / "copied"), tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        with pytest.raises(TargetError, match=r"did not answer within 0\.3 s"):
            transport.run("sleep 30", timeout=0.3)
        assert transport.run("echo again").stdout == "again\n"


def test_job_that_the_queue_has_forgotten(jobs: Jobs, early: dict[str, Present], real_slurm: Rig) -> None:
    job = early["forgotten"].job
    while job.id in real_slurm.jobs():
        time.sleep(1)
    present = jobs.present(job.request, retry=False)
    (result,) = jobs.wait([present])
    assert (present.made, present.job.id) == (False, job.id)
    assert (result.state, result.exit_code) == ("failed", 5)


def test_job_over_its_time_limit(jobs: Jobs, early: dict[str, Present], tmp_path: Path) -> None:
    present = jobs.present(early["over"].job.request, retry=False)
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path)
    assert not present.made
    assert result.state == "timeout"
    assert (tmp_path / "over" / "output.log").read_text().startswith("begun\n")
