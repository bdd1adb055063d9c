"""What this process may use: cores, memory, features of the processor."""

import functools
import os
from typing import Dict, FrozenSet, List, Mapping, Optional

from .files import open_file

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MOST_GROWTH = 1 << 30
"""Bytes by which the process may grow in a trial, however small it was; a larger one may double."""
_GROUPS = "/sys/fs/cgroup"
_PROC = "/proc"
_CPUS = "/sys/devices/system/cpu"
_MEMORY = (
    ("", ("memory.max", "memory.high"), "memory.current", "inactive_file"),
    ("memory", ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
)
"""A version 1 controller, or version 2: files of limits and of what is used, and the files' pages that are given up
first, by their name in memory.stat."""


def cores() -> int:
    """Return the number of cores that this process may run on, a cgroup's quota included."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        count = os.cpu_count() or 1
    for folder in _own_groups():
        quota = _read(folder + "/cpu.max").split()
        if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit() and int(quota[1]):
            count = min(count, max(1, int(quota[0]) // int(quota[1])))
    return max(1, count)


def physical_cores() -> int:
    """Return the number of cores that this process may run on, where threads of one core count once."""
    try:
        return min(cores(), len({_threads_of_core(_CPUS, number) for number in os.sched_getaffinity(0)}))
    except AttributeError:  # macOS
        return cores()


def load() -> float:
    """Return how many times as long work takes for the processes that wait for a core, at least once."""
    try:
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return 1.0


def idle() -> Optional[Dict[int, float]]:
    """Return the seconds that each of the machine's logical processors has been idle so far; None where unknown."""
    try:
        lines = [line.split() for line in _read(_PROC + "/stat", 1 << 20).splitlines()]
        ticks = {int(line[0][3:]): int(line[4]) for line in lines if line and line[0][:3] == "cpu" != line[0]}
        own = os.sched_getaffinity(0)
    except (AttributeError, ValueError, IndexError):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    return {number: count / tick for number, count in ticks.items()} if own <= set(ticks) else None


def idle_since(before: Mapping[int, float]) -> Optional[float]:
    """Return the seconds that cores which this process may run on were idle since ``idle`` said that.

    A core is as idle as the least idle of its threads, which share its arithmetic units, whoever may use them.
    """
    now = idle()
    if now is None:
        return None
    spans = {number: max(0.0, seconds - before[number]) for number, seconds in now.items() if number in before}
    own = {_threads_of_core(_CPUS, number) for number in os.sched_getaffinity(0)}
    return sum(min((spans[number] for number in core if number in spans), default=0.0) for core in own)


def free_memory() -> Optional[int]:
    """Return the bytes that this process may still use: the machine's, or its cgroups'; None where unknown.

    A cgroup may use no more than each one above it: Slurm limits jobs and steps, and has tasks in groups below them.
    Other schedulers limit the process itself (ulimit -v).
    """
    amounts = []
    for line in _read(_PROC + "/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            amounts.append(int(line.split()[1]) * 1024)
    for controller, limits, used, cache in _MEMORY:
        for folder in _own_groups(controller):
            taken = _read(folder + "/" + used).strip()
            allowed = [text for text in (_read(folder + "/" + name).strip() for name in limits) if text.isdigit()]
            if allowed and taken.isdigit():
                kept = max(0, int(taken) - _field(folder + "/memory.stat", cache))
                amounts.append(max(0, min(map(int, allowed)) - kept))
    own = within_limits()
    if own is not None:
        amounts.append(own)
    return min(amounts) if amounts else None


def within_limits() -> Optional[int]:
    """Return the bytes that limits of the process leave it, of its address space or its data; None without limits."""
    if resource is None:
        return None
    limits = ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:"))
    soft = [(resource.getrlimit(kind)[0], name) for kind, name in limits]
    status = _PROC + "/self/status"
    left = [max(0, most - 1024 * _field(status, name)) for most, name in soft if most != resource.RLIM_INFINITY]
    return min(left) if left else None


def cpu_features() -> FrozenSet[str]:
    """Return the processor's features as Linux names them."""
    for line in _read(_PROC + "/cpuinfo", 65536).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def cpu_model() -> str:
    """Return the processor's name and numbers as Linux has them; empty where unknown."""
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "CPU implementer", "CPU part")
    values: Dict[str, str] = {}
    for line in _read(_PROC + "/cpuinfo", 65536).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in wanted:
            values.setdefault(key.strip(), value.strip())
    return "; ".join("{}: {}".format(*item) for item in sorted(values.items()))


def peak_memory() -> Optional[int]:
    """Return the largest resident size of this process so far, in bytes."""
    own = _field(_PROC + "/self/status", "VmHWM:")
    if own:
        return own * 1024
    if resource is None:
        return None
    # That of a process that has started this one by exec counts as well.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_memory() -> Optional[int]:
    """Return the resident size of this process now, in bytes; None where unknown."""
    fields = _read(_PROC + "/self/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 and fields[1].isdigit() else None


def grown(before: Optional[int]) -> Optional[int]:
    """Return by how many bytes the process has grown since it had ``before``, where that is too much for a trial."""
    now = resident_memory()
    if now is None or before is None:
        return None
    return now - before if now - before > max(MOST_GROWTH, before) else None


def data_memory() -> Optional[int]:
    """Return the bytes of this process's data, as RLIMIT_DATA counts them; None where unknown."""
    return _field(_PROC + "/self/status", "VmData:") * 1024 or None


def _own_groups(controller: str = "") -> List[str]:
    """Return the folders of this process's cgroup and of those above it: version 2's, or a controller's of version 1.

    Inside a container the path is the host's, and the container's own group is at the top.
    """
    for line in _read(_PROC + "/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(",") if controller else (number == "0" and not controllers):
            names = [name for name in path.split("/") if name]
            if ".." in names:  # of a process outside of this namespace
                names = []
            return ["/".join([_GROUPS, *filter(None, [controller]), *names[:n]]) for n in range(len(names), -1, -1)]
    return []


@functools.lru_cache(maxsize=None)
def _threads_of_core(folder: str, number: int) -> FrozenSet[int]:
    """Return the logical processors that are threads of the same core as a given one, which is one of them."""
    numbers = {number}
    text = _read("{}/cpu{}/topology/thread_siblings_list".format(folder, number))
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _field(path: str, name: str) -> int:
    """Return a number in a file of names and numbers; 0 where it is not there."""
    for line in _read(path).splitlines():
        fields = line.split()
        if len(fields) > 1 and fields[0] == name and fields[1].isdigit():
            return int(fields[1])
    return 0


def _read(path: str, limit: int = 16384) -> str:
    try:
        with open_file(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""
