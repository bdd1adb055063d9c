"""What the machine tells: processor time of this process's children and of others, memory over time."""

import os
import resource
import signal
import threading
import time
from typing import Dict, List, Optional

SAMPLES = 400
"""Values of memory over time that a repeat keeps."""


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy() -> Optional[float]:
    """Return the processor seconds that the whole machine has spent so far, stolen ones included; None if unknown."""
    try:
        with open("/proc/stat") as file:
            columns = file.readline().split()
    except OSError:
        return None
    ticks = [int(field) for field in columns[1:9]]
    # user nice system idle iowait irq softirq steal: proc(5)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def used() -> float:
    """Return the processor seconds of this process and of all its children that have ended."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


def resident(root: int) -> int:
    """Return the resident bytes of all processes below this one.

    A process may have any bytes for its name: Linux cuts one after 15, in the middle of a character, too.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    parents: Dict[int, int] = {}
    sizes: Dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)], sizes[int(name)] = int(fields[1]), int(fields[21]) * page
    total = 0
    for number, size in sizes.items():
        parent = parents[number]
        while parent not in (0, root) and parent in parents:
            parent = parents[parent]
        total += size if parent == root and number != root else 0
    return total


class Memory(threading.Thread):
    """Samples the memory of the processes below this one; the step doubles when there are too many samples."""

    def __init__(self, step: float) -> None:
        super().__init__(daemon=True)
        self.step = step
        self.values: List[int] = []
        self.peak = 0
        self._end = threading.Event()

    def run(self) -> None:
        wait = min(0.02, self.step)  # so that a short run has a value
        while not self._end.wait(wait):
            wait = self.step
            value = resident(os.getpid())
            self.peak = max(self.peak, value)
            self.values.append(value)
            if len(self.values) >= SAMPLES:
                self.values, self.step = self.values[1::2], self.step * 2
                wait = self.step

    def stop(self) -> None:
        self._end.set()
        self.join()


def adopt(limit: float) -> None:
    """Wait for processes that the run left behind, so that their time is counted; end those that stay."""
    deadline = time.monotonic() + limit
    while True:
        try:
            number, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if number:
            continue
        if time.monotonic() > deadline:
            for child in children():
                os.kill(child, signal.SIGKILL)
            deadline = time.monotonic() + min(limit, 0.2)  # theirs come to this process once they have ended
        time.sleep(0.005)


def end_all(grace: float) -> None:
    """End the processes below this one, so that none of them outlives it."""
    for child in children():
        try:
            (os.killpg if os.getpgid(child) == child else os.kill)(child, signal.SIGTERM)
        except OSError:
            continue
    adopt(grace)


def children() -> List[int]:
    """Return the processes whose parent this one is."""
    files = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                files.append(int(name))
    return files
