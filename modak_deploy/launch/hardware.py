"""What this process may use: cores, memory, features of the processor."""

import os
from typing import FrozenSet, Optional

_GROUPS = "/sys/fs/cgroup"


def cores() -> int:
    """Return the number of cores that this process may run on, a cgroup's quota included."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        count = os.cpu_count() or 1
    quota = _read(_own_group("cpu.max")).split()
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit() and int(quota[1]):
        count = min(count, max(1, int(quota[0]) // int(quota[1])))
    return max(1, count)


def load() -> float:
    """Return how many times as long work takes for the processes that wait for a core, at least once."""
    try:
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return 1.0


def idle() -> Optional[float]:
    """Return the seconds that the cores which this process may run on have been idle so far; None where unknown."""
    try:
        own = {"cpu{}".format(number) for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in _read("/proc/stat", 1 << 20).splitlines() if line.startswith("cpu")]
        ticks = [int(line[4]) for line in lines if line[0] in own]
    except (AttributeError, ValueError, IndexError):
        return None
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if len(ticks) == len(own) else None


def free_memory() -> Optional[int]:
    """Return the bytes that this process may still use: the machine's, or its cgroup's; None where unknown."""
    amounts = []
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            amounts.append(int(line.split()[1]) * 1024)
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        allowed, taken = _read(_own_group(limit)).strip(), _read(_own_group(used)).strip()
        if allowed.isdigit() and taken.isdigit():
            amounts.append(max(0, int(allowed) - int(taken)))
    return min(amounts) if amounts else None


def cpu_features() -> FrozenSet[str]:
    """Return the processor's features as Linux names them."""
    for line in _read("/proc/cpuinfo", 65536).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def peak_memory() -> Optional[int]:
    """Return the largest resident size of this process so far, in bytes."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_memory() -> Optional[int]:
    """Return the resident size of this process now, in bytes; None where unknown."""
    fields = _read("/proc/self/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 and fields[1].isdigit() else None


def _own_group(file: str) -> str:
    """Return the path of a file of this process's cgroup: version 2, or version 1's memory controller."""
    for line in _read("/proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers and file in ("cpu.max", "memory.max", "memory.current"):
            own = _GROUPS + path.rstrip("/") + "/" + file
            # Inside a container the path is the host's, and the container's own group is at the top.
            return own if os.path.exists(own) else _GROUPS + "/" + file
        if "memory" in controllers.split(",") and file.endswith("_in_bytes"):
            own = _GROUPS + "/memory" + path.rstrip("/") + "/" + file
            return own if os.path.exists(own) else _GROUPS + "/memory/" + file
    return ""


def _read(path: str, limit: int = 16384) -> str:
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""
