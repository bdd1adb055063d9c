"""Every end of a job, on real daemons that remember it and that forget it at once."""

import pytest

from pbs import Site

TRAPPED = 'trap "echo caught >caught; exit 5" TERM; echo >started; while :; do sleep 0.1; done'


@pytest.mark.parametrize(
    ("line", "state", "code", "signal"),
    [
        ("echo well", "completed", 0, None),
        ("exit 3", "failed", 3, None),
        ("kill -9 $$", "failed", 137, 9),
        ("kill -15 $$", "failed", 143, 15),
    ],
)
def test_exit_code(site: Site, line: str, state: str, code: int, signal: int | None) -> None:
    result = site.end(line)
    assert (result.state, result.exit_code, result.signal) == (state, code, signal)
    assert result.seconds is not None


def test_qdel_leaves_time_for_the_end(site: Site) -> None:
    present = site.submit(TRAPPED)
    site.until_started(present)
    site.ssh(f"qdel {present.job.id}")
    result = site.wait(present)
    assert result.state == "cancelled", result.reason
    assert (site.folder(present) / "work" / "caught").exists(), "it was killed before its trap could run"
    assert "state=terminated" in (site.folder(present) / "state" / "exit").read_text()


def test_wall_time_is_over(site: Site) -> None:
    present = site.submit(TRAPPED, job={"wall_time": 5})
    result = site.wait(present)
    assert result.state == "timeout", result.reason
    assert (site.folder(present) / "work" / "caught").exists(), "it was killed before its trap could run"


@pytest.mark.parametrize("how", ["qdel", "walltime"])
@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "deaf"])
def test_outputs_come_back_from_scratch(site: Site, how: str, deaf: bool) -> None:
    line = f'{"trap : TERM; " if deaf else ""}echo kept >result; echo >"$HERE"/started; while :; do sleep 0.1; done'
    workspace = site.workspace / "marks"
    site.ssh(f"mkdir -p {workspace}")
    job = {"scratch": "/tmp", "environment": {"HERE": str(workspace)}, "wall_time": 5 if how == "walltime" else 300}
    present = site.submit(line, job=job, outputs=["result"])
    site.until(lambda: (workspace / "started").exists(), "the job has not started")
    if how == "qdel":
        site.ssh(f"qdel {present.job.id}")
    result = site.wait(present)
    assert result.state == ("timeout" if how == "walltime" else "cancelled"), result.reason
    assert (site.folder(present) / "work" / "result").read_text() == "kept\n"


def test_more_memory_than_reserved(site: Site) -> None:
    line = "echo >started; exec /usr/bin/python3 -c 'import time; x = bytearray(800 << 20); time.sleep(60)'"
    result = site.end(line, job={"memory": "64MiB", "wall_time": 300})
    if site.torque:  # its limit is one of each process's data: the application is told, and fails
        assert (result.state, result.exit_code) == ("failed", 1)
    else:
        assert result.state == "out_of_memory"
        assert "it used more memory than it reserved" in result.reason


def test_array_with_a_failing_task(site: Site) -> None:
    result = site.end('[ "$MODAK_TASK" != 1 ] || exit 7', job={"array": "0-2"})
    assert (result.state, result.exit_code) == ("failed", 7)


def test_cancelled_and_removed(site: Site) -> None:
    present = site.submit("echo >started; sleep 600")
    site.until_started(present)
    assert site.jobs.absent(present.job.request)
    assert not site.in_queue(present.job.id)
    assert not site.folder(present).exists()


def test_login_shell_and_input(site: Site) -> None:
    site.ssh("printf 'FROM_PROFILE=yes; export FROM_PROFILE; umask 027\\n' >~/.profile")
    try:
        present = site.submit('echo "$FROM_PROFILE $(umask) $(readlink -f /proc/self/fd/0)" >said')
        assert site.wait(present).state == "completed"
    finally:
        site.ssh("rm ~/.profile")
    assert (site.folder(present) / "work" / "said").read_text() == "yes 0027 /dev/null\n"


def test_threads_are_the_cores_that_are_reserved(site: Site) -> None:
    for job, threads in (({}, "1"), ({"cores_per_rank": 2}, "2"), ({"environment": {"OMP_NUM_THREADS": "3"}}, "3")):
        present = site.submit('echo "$OMP_NUM_THREADS" >threads', job=job)
        assert site.wait(present).state == "completed"
        assert (site.folder(present) / "work" / "threads").read_text().strip() == threads
