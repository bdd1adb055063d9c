"""What the job script does when a shell runs it, and what it writes down about it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.jobs.record import parse_exit, parse_start
from modak_deploy.jobs.script import merged_environment
from scheduler_parts import TAG, Part, make, shells
from scriptruns import record, run, text_of, use, wait_for

Maker = Callable[..., tuple[Path, Part]]


@pytest.fixture(params=shells(), ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


def test_a_job_that_ends_well(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", "echo out; echo err >&2; pwd")
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == f"out\nerr\n{folder}/work\n"
    end = record(folder)
    assert (end.state, end.code, end.signal) == ("completed", 0, None)
    assert end.start <= end.end
    start = parse_start((folder / "state" / "start").read_text())
    assert start is not None
    assert start.host == end.host == os.uname().nodename
    assert f"tag={TAG}\n" in (folder / "state" / "exit").read_text()
    assert not list((folder / "state").glob(".*")), "temporary files are left behind"


def test_a_job_that_fails_fails_whatever_runs_after_it(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", "exit 3", job={"post_execution": "echo after; true"})
    assert run(folder, shell) == 3
    assert record(folder).state == "failed"
    assert record(folder).code == 3
    assert (folder / "output.log").read_text() == "after\n"


def test_a_step_after_the_job_that_fails_is_told_and_changes_nothing(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "true", job={"post_execution": "exit 9"})
    assert run(folder, shell) == 0
    assert record(folder).state == "completed"
    assert "post_code=9\n" in (folder / "state" / "exit").read_text()
    assert (folder / "output.log").read_text() == "modak: post_execution ended with exit code 9\n"


@pytest.mark.parametrize(
    ("before", "code"),
    [("false\necho never", 1), ("exit 0", 1), ("echo 'unfinished", None), ("nosuchcommand", 127), ("exit 7", 7)],
)
def test_a_step_before_the_job_that_fails_fails_the_job(
    job_folder: Maker, shell: list[str], before: str, code: int | None
) -> None:
    folder, _ = job_folder("process", "echo", "never", job={"pre_execution": before})
    assert run(folder, shell) == (code or record(folder).code) != 0
    assert record(folder).state == "failed"
    assert record(folder).start is None
    assert "never\n" not in (folder / "output.log").read_text()


def test_what_the_step_before_exports_reaches_the_job_and_the_step_after(job_folder: Maker, shell: list[str]) -> None:
    steps = {"pre_execution": "A=1; export A; cd /", "post_execution": 'echo "after $A"'}
    folder, _ = job_folder("process", "sh", "-c", 'echo "job $A $PWD"', job=steps)
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == f"job 1 {folder}/work\nafter 1\n"


def test_environment_is_only_the_applications(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder(
        "process",
        "/bin/sh",
        "-c",
        '/usr/bin/printf "%s|" "$PATH" "$A" "$B" "$C" "$OMP_NUM_THREADS" "$MODAK_TAG"',
        environment={"PATH": "/nowhere", "A": "application", "B": "application"},
        job={"environment": {"B": "job"}},
        candidate={"environment": {"C": "lever"}},
        resources={"threads": 3},
    )
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == f"/nowhere|application|job|lever|3|{TAG}|"
    assert record(folder).state == "completed", "the script's own commands need no PATH of the user's"


@pytest.mark.parametrize(
    ("resources", "job", "threads"),
    [
        ({"ranks": 4, "ranks_per_node": 4}, {}, "1"),
        ({"ranks": 4, "ranks_per_node": 4}, {"cores_per_rank": 3}, "3"),
        ({"threads": 4}, {"threads": 2, "cores_per_rank": 4}, "2"),
        ({"threads": 1}, {"threads": 4}, "1"),
        ({}, {}, None),
    ],
)
def test_a_rank_has_the_threads_that_were_asked_for(
    resources: dict[str, int], job: dict[str, int], threads: str | None
) -> None:
    part = make("openpbs", resources=resources, job=job)
    assert merged_environment(part.request, part.spec).get("OMP_NUM_THREADS") == threads


def test_output_and_error_apart(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", "echo out; echo err >&2", job={"join_output": False})
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == "out\n"
    assert (folder / "error.log").read_text() == "err\n"


def test_an_output_that_cannot_be_written_is_a_recorded_failure(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "true", job={"output": "no/such/file"})
    assert run(folder, shell) != 0
    assert record(folder).state == "failed"


def test_a_program_that_is_not_there(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "no-such-program")
    assert run(folder, shell) == 127
    assert record(folder).code == 127


def test_a_program_killed_by_a_signal(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", "kill -9 $$")
    assert run(folder, shell) == 137
    assert (record(folder).state, record(folder).code) == ("failed", 137)


def test_each_task_of_an_array_has_its_own_files(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("slurm", "sh", "-c", 'echo "$MODAK_TASK"; exit "$MODAK_TASK"', job={"array": "0-2"})
    assert run(folder, shell, {"SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1"}) == 0
    assert run(folder, shell, {"SLURM_ARRAY_TASK_ID": "2", "SLURM_JOB_ID": "14", "SLURMD_NODENAME": "n2"}) == 2
    assert (folder / "output.log.0").read_text() == "0\n"
    assert (folder / "output.log.2").read_text() == "2\n"
    assert (record(folder, ".0").state, record(folder, ".0").host) == ("completed", "n1")
    assert (record(folder, ".2").state, record(folder, ".2").host) == ("failed", "n2")


def test_a_signal_is_recorded_at_once_and_reaches_the_application(job_folder: Maker, shell: list[str]) -> None:
    program = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    folder, _ = job_folder("process", "sh", "-c", program, job={"post_execution": "echo never"})
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    assert "got it\n" in (folder / "output.log").read_text()
    assert "never" not in (folder / "output.log").read_text()
    end = record(folder)
    assert (end.state, end.code, end.signal) == ("terminated", 5, 15)


def test_a_deaf_application_is_recorded_before_the_kill(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("slurm", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    os.killpg(process.pid, signal.SIGTERM)
    wait_for((folder / "state" / "exit").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert (record(folder).state, record(folder).code) == ("terminated", 143)


def test_the_wall_time_is_kept_on_a_plain_machine(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", "sleep 600 & sleep 600", job={"wall_time": 1})
    assert run(folder, shell) != 0
    assert record(folder).state == "timeout"
    assert "modak: the wall time of 1 s is over\n" in (folder / "output.log").read_text()


def test_a_term_after_the_wall_time_is_a_timeout_on_a_scheduler(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("torque", "sh", "-c", "echo ready; sleep 600", job={"wall_time": 2})
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    time.sleep(2)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    assert record(folder).state == "timeout"


@pytest.mark.parametrize("record_of", ["start", "exit"])
@pytest.mark.parametrize("text", ["state=timeout\ncode=1\njob=7\n", ""], ids=["whole", "emptied"])
def test_what_has_begun_is_not_started_again(job_folder: Maker, shell: list[str], record_of: str, text: str) -> None:
    folder, _ = job_folder("process", "touch", "ran")
    (folder / "state" / record_of).write_text(text)
    assert run(folder, shell) == 75
    assert not (folder / "work" / "ran").exists()
    assert (folder / "state" / record_of).read_text() == text
    assert [path.name for path in (folder / "state").glob("exit*")] == ([] if record_of == "start" else ["exit"])


def test_of_two_jobs_at_once_one_runs_the_application(job_folder: Maker, shell: list[str]) -> None:
    """Both of the same tag, as they come of a lost answer."""
    folder, _ = job_folder("process", "sh", "-c", "echo run >>ran; sleep 0.1")
    for name in ("start", "run", "exit"):
        (folder / "state" / f"reserved.{name}").write_text(" " * 1023 + "\n")
    use(folder, shell)
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda _: run(folder, shell), range(6)))
    assert sorted(codes) == [0, 75, 75, 75, 75, 75]
    assert (folder / "work" / "ran").read_text() == "run\n"
    assert record(folder).state == "completed"


def test_without_a_record_of_the_start_nothing_is_started(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "touch", "ran")
    (folder / "state").rename(folder / "elsewhere")
    assert run(folder, shell) == 74
    assert not (folder / "work" / "ran").exists()


def test_libraries_are_preloaded_where_the_node_has_them(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "sh", "-c", 'echo "$LD_PRELOAD"', candidate={"preload": ["libc.so.6"]})
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == "libc.so.6\n"


def test_a_library_that_is_not_there_is_named(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "echo", "never", candidate={"preload": ["libnosuch.so.1"]})
    assert run(folder, shell) == 1
    assert (folder / "output.log").read_text().startswith("modak: the library libnosuch.so.1, which the plan preloads")
    assert record(folder).state == "failed"


def test_a_library_beside_the_usual_places_is_found(job_folder: Maker, shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "libown.so.1").touch()
    folder, _ = job_folder(
        "process",
        "sh",
        "-c",
        "echo ${LD_PRELOAD}",
        candidate={"preload": ["libown.so.1"]},
        environment={"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"},
    )
    assert run(folder, shell) == 0
    assert f"{tmp_path}/libown.so.1\n" in (folder / "output.log").read_text()


def test_modules_are_loaded_in_order_and_a_missing_one_fails_the_job(job_folder: Maker, tmp_path: Path) -> None:
    (tmp_path / "modules" / "init").mkdir(parents=True)
    (tmp_path / "modules" / "init" / "sh").write_text('module() { [ "$2" != none ] && echo "$1 $2"; }\n')
    more: dict[str, Any] = {"target": {"modules": ["a/1"]}, "job": {"modules": ["b c"]}}
    folder, _ = job_folder("process", "echo", "run", **more)
    assert run(folder, ["/bin/sh"], {"MODULESHOME": str(tmp_path / "modules")}) == 0
    assert (folder / "output.log").read_text() == "load a/1\nload b c\nrun\n"
    more["job"]["modules"] = ["none"]
    folder, _ = job_folder("process", "echo", "run", name="second", **more)
    assert run(folder, ["/bin/sh"], {"MODULESHOME": str(tmp_path / "modules")}) == 1
    assert "modak: the module none cannot be loaded" in (folder / "output.log").read_text()


def test_hosts_of_ranks_on_torque_are_one_line_each(job_folder: Maker, tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n1\n" * 8 + "n2\n" * 8)
    (tmp_path / "mpirun").write_text('#!/bin/sh\nprintf "%s\\n" "$*"; cat "$4"\n')
    (tmp_path / "mpirun").chmod(0o755)
    folder, _ = job_folder("torque", "./train", resources={"nodes": 2, "ranks": 7, "ranks_per_node": 4, "threads": 2})
    environment = {"PBS_NODEFILE": str(tmp_path / "nodes"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run(folder, ["/bin/sh"], environment) == 0
    hosts = folder / "state" / "hosts"
    assert (folder / "output.log").read_text() == f"-n 7 -machinefile {hosts} ./train\n" + "n1\n" * 4 + "n2\n" * 3


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        (["n1"] * 2 + ["n2"] * 2 + ["n3"] * 2 + ["n4"] * 2, ["n1", "n1", "n2", "n3", "n4"]),
        (["n4", "n4", "n1", "n1", "n2", "n2", "n3", "n3"], ["n4", "n4", "n1", "n2", "n3"]),
        (["n1"] * 8, ["n1"] * 8),  # a site's scheduler has put all on one host: mpirun takes the first five lines
    ],
)
@pytest.mark.parametrize("awk", [["awk"], ["mawk"], ["gawk"], ["busybox", "awk"]], ids=" ".join)
def test_uneven_ranks_have_their_share_of_each_host(
    tmp_path: Path, awk: list[str], nodes: list[str], hosts: list[str]
) -> None:
    if shutil.which(awk[0]) is None:
        pytest.skip(f"there is no {awk[0]} on this machine")
    part = make("torque", resources={"nodes": 4, "ranks": 5, "ranks_per_node": 2})
    (tmp_path / "nodes").write_text("\n".join(nodes) + "\n")
    command = part.scheduler.prepare(part.spec).replace("awk", " ".join(awk), 1)
    environment = {"PATH": os.environ["PATH"], "PBS_NODEFILE": str(tmp_path / "nodes"), "modak_state": str(tmp_path)}
    subprocess.run(["/bin/sh", "-c", command], env=environment, check=True)
    assert (tmp_path / "hosts").read_text().split() == hosts


@pytest.mark.parametrize(
    ("scheduler", "job", "ranks", "line"),
    [
        ("slurm", {}, 1, "./train --epochs 12"),
        (
            "slurm",
            {},
            4,
            "srun --export=ALL --kill-on-bad-exit=1 --nodes=1 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=2 "
            "--mpi=pmix ./train --epochs 12",
        ),
        ("slurm", {"mpi_launcher": "mpirun"}, 4, "mpirun -n 4 ./train --epochs 12"),
        ("slurm", {"mpi_launcher": "none"}, 4, "./train --epochs 12"),
        ("torque", {}, 1, "./train --epochs 12"),
        ("openpbs", {}, 4, 'mpirun -n 4 -machinefile "$modak_state/hosts$modak_suffix" ./train --epochs 12'),
        ("openpbs", {"mpi_launcher": "mpiexec"}, 1, 'mpiexec -n 1 -machinefile "$modak_state/hosts$modak_suffix" '),
        ("process", {}, 4, "mpirun -n 4 ./train --epochs 12"),
        ("process", {"mpi_launcher": "none"}, 4, "./train --epochs 12"),
    ],
)
def test_launch_line(scheduler: str, job: dict[str, Any], ranks: int, line: str) -> None:
    shape = {"ranks": ranks, "ranks_per_node": ranks, "threads": 2}
    part = make(scheduler, job=job, resources=shape, target={"mpi_type": "pmix"})
    assert f"    exec {line}" in part.script()


@pytest.mark.parametrize("scheduler", ["torque", "openpbs", "process"])
def test_srun_needs_slurm(scheduler: str) -> None:
    with pytest.raises(InputError, match=r"^job\.mpi_launcher: not supported by .*: srun needs Slurm"):
        make(scheduler, job={"mpi_launcher": "srun"}).script()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"environment": {"KERAS_BACKEND": "torch"}, "candidate": {"environment": {"KERAS_BACKEND": "jax"}}},
            "application.environment.KERAS_BACKEND differs from 'jax', which the plan's candidate 'default' needs",
        ),
        ({"environment": {"IFS": "x"}}, "application.environment.IFS cannot be set: the shell keeps"),
        ({"job": {"environment": {"UID": "0"}}}, "job.environment.UID cannot be set: the shell keeps"),
        ({"environment": {"modak_state": "x"}}, "application.environment.modak_state cannot be set: modak keeps"),
        ({"environment": {"MODAK_TAG": "x"}}, "application.environment.MODAK_TAG cannot be set: modak keeps"),
        ({"argv": ("-c", "x")}, "the program '-c' of the plan 'digits' begins with a hyphen"),
        ({"argv": ("echo", "a\0b")}, "'a\\x00b' holds a NUL character"),
    ],
)
def test_what_cannot_be_run_is_refused(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InputError, ValueError)) as refusal:
        make("process", **more).script()
    assert sentence in str(refusal.value) or "string_pattern_mismatch" in str(refusal.value)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_nothing_is_left_running(job_folder: Maker, shell: list[str]) -> None:
    folder, _ = job_folder("process", "true", job={"wall_time": 600})
    assert run(folder, shell) == 0

    def watches() -> list[Path]:
        mark = str(folder / "job.sh").encode()
        return [file for file in Path("/proc").glob("[0-9]*/cmdline") if mark in _bytes(file)]

    wait_for(lambda: not watches())


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ("start=100\nend=109\n", 9),
        ("start=100\nend=100\n", None),
        ("start=100\nend=90\n", None),
        ("seconds=4\n", 4),
        ("start=99999999999999\nend=99999999999999\n", None),
    ],
)
def test_duration(lines: str, seconds: float | None) -> None:
    found = parse_exit(f"state=completed\ncode=0\n{lines}")
    assert found is not None and found.seconds == seconds
