"""What a process may use: cores and memory, by files of the kernel that are written here."""

import os
import sys

import pytest

from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks import openvino_cpu

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the files are Linux's")
MIB = 1 << 20
TASK = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return what writes files of the kernel's, by their paths."""
    for name, folder in (("_PROC", "proc"), ("_GROUPS", "cgroup"), ("_CPUS", "cpu")):
        monkeypatch.setattr(hardware, name, str(tmp_path / folder))

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    write(**{"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 65536 kB", "proc/self/cgroup": f"0::/{TASK}"})
    return write


def group(folder, **values):
    return {f"cgroup/{folder}/{name.replace('__', '.')}": value for name, value in values.items()}


def test_memory_is_limited_by_groups_above(files):
    assert hardware.free_memory() == 64 * MIB
    files(**group(TASK, memory__max="max", memory__current=MIB))
    assert hardware.free_memory() == 64 * MIB
    step, job = TASK.partition("/user")[0], TASK.partition("/step")[0]
    files(**group(step, memory__max=40 * MIB, memory__current=10 * MIB))
    assert hardware.free_memory() == 30 * MIB
    files(**group(job, memory__max=40 * MIB, memory__high="max", memory__current=20 * MIB))
    assert hardware.free_memory() == 20 * MIB
    files(**group(job, memory__high=25 * MIB))
    assert hardware.free_memory() == 5 * MIB


def test_pages_of_files_that_nobody_uses_are_free(files):
    files(**group(TASK, memory__max=40 * MIB, memory__current=30 * MIB))
    files(**group(TASK, memory__stat=f"anon 5\ninactive_file {8 * MIB}\nactive_file 9"))
    assert hardware.free_memory() == 18 * MIB


def test_memory_of_version_1(files):
    files(**{"proc/self/cgroup": "4:cpuset:/x\n3:memory,other:/slurm/uid_1/job_7/step_0"})
    files(**group("memory/slurm/uid_1/job_7/step_0", memory__limit_in_bytes=9223372036854771712))
    files(**group("memory/slurm/uid_1/job_7/step_0", memory__usage_in_bytes=MIB))
    assert hardware.free_memory() == 64 * MIB
    files(**group("memory/slurm/uid_1/job_7", memory__limit_in_bytes=9 * MIB, memory__usage_in_bytes=2 * MIB))
    assert hardware.free_memory() == 7 * MIB


@pytest.mark.parametrize("path", ["/docker/0123", "/../../other"])
def test_a_containers_own_group_is_at_the_top(files, path):
    files(**{"proc/self/cgroup": f"0::{path}"}, **group("", memory__max=9 * MIB, memory__current=2 * MIB))
    assert hardware.free_memory() == 7 * MIB


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})


def siblings(**cores):
    return {f"cpu/{name}/topology/thread_siblings_list": text for name, text in cores.items()}


def test_a_quota_of_a_group_above_counts(files, four):
    assert hardware.cores() == hardware.physical_cores() == 4
    files(**group("system.slice", cpu__max="300000 100000"))
    assert hardware.cores() == hardware.physical_cores() == 3
    files(**group(TASK, cpu__max="max 100000"))
    assert hardware.cores() == 3


def test_threads_of_a_core_count_once(files, four):
    files(**siblings(cpu0="0-1", cpu1="0-1", cpu2="2,6", cpu3="3,7"))
    assert hardware.cores() == 4
    assert hardware.physical_cores() == 3


def stat(*idle):
    lines = [f"cpu{number} 5 5 5 {ticks} 7" for number, ticks in enumerate(idle)]
    return {"proc/stat": "\n".join(["cpu 1 1 1 1 1", *lines, "intr 5 6"])}


def test_a_core_is_as_idle_as_the_least_idle_of_its_threads(files, four):
    tick = os.sysconf("SC_CLK_TCK")
    files(**siblings(cpu0="0,4", cpu1="1,5", cpu2="2,6", cpu3="3"), **stat(*[0] * 8))
    before = hardware.idle()
    files(**stat(tick, tick, tick, tick, 0, tick // 2, 3 * tick, 0))
    assert hardware.idle_since(before) == pytest.approx(0 + 0.5 + 1 + 1)


def test_idle_is_unknown_where_a_processor_is_not_listed(files, four):
    assert hardware.idle() is None
    files(**stat(1, 2))
    assert hardware.idle() is None
    assert hardware.idle_since({0: 0.0}) is None


def test_real_files_can_be_read():
    before = hardware.idle()
    assert before is not None
    since = hardware.idle_since(before)
    assert since is not None and since >= 0
    assert 1 <= hardware.physical_cores() <= hardware.cores()
    data = hardware.data_memory()
    assert data is not None and data > MIB


def test_limits_of_the_process_count(files, monkeypatch):
    limits = {hardware.resource.RLIMIT_AS: 30 * MIB, hardware.resource.RLIMIT_DATA: hardware.resource.RLIM_INFINITY}
    files(**{"proc/self/status": "VmPeak:\t9 kB\nVmSize:\t10240 kB\nVmData:\t5120 kB"})
    assert hardware.within_limits() is None or hardware.free_memory() <= 64 * MIB
    monkeypatch.setattr(hardware.resource, "getrlimit", lambda kind: (limits[kind], 0))
    assert hardware.within_limits() == hardware.free_memory() == 20 * MIB
    limits[hardware.resource.RLIMIT_DATA] = 6 * MIB
    assert hardware.free_memory() == MIB
    with pytest.raises(MemoryError, match="2048 MiB of addresses, and 1 MiB are left"):
        openvino_cpu.module("openvino.none")
    assert "1 MiB are left" in str(openvino_cpu.refusal())
