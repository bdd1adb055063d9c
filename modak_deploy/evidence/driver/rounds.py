"""The rounds of a benchmark: every configuration once in each, in random order, until the means are known well enough.

Every repeat is one line of ``benchmark/repeats*.jsonl``, synced before the next one begins: a job that was ended goes
on where it was, in its next attempt too. docs/benchmark.md says what is measured and when a repeat counts.
"""

import ctypes
import fcntl
import io
import json
import math
import os
import random
import signal
import statistics
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional

from .machine import end_all, processors
from .results import Reference
from .runs import Run, fail, printable, remove, tail

TASKS = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID", "SGE_TASK_ID")
PR_SET_CHILD_SUBREAPER = 36  # prctl(2): conmon and its container become our children, so that their time is counted
PR_SET_PDEATHSIG = 1  # of the parent's thread: a job's shell has one, and ``modak benchmark study`` waits in its own
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SLOW = 10.0
"""Times as long as the default, from which on a configuration that has run for long besides is ended."""
GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL for the run that goes on when the driver is ended."""
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
"""Student's t at 97.5 % for 1 to 20 degrees of freedom."""


class Benchmark:
    """All rounds."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self.settings = settings
        self.configurations = settings["configurations"]
        # Not where the job is no array: it may have been started within a task of one.
        tasks = TASKS if settings.get("array", True) else ()
        task = next((os.environ[name] for name in tasks if os.environ.get(name, "").isdigit()), None)
        self.seed = "{}-{}".format(settings["seed"], task or 0)
        suffix = "" if task is None else "." + task
        self.runs = "runs" + suffix
        self.path = os.path.join("benchmark", f"repeats{suffix}.jsonl")
        self.records: List[Dict[str, Any]] = []
        self.began = time.monotonic()
        self.reference = Reference(settings["tolerance"])
        self.dropped: Dict[int, str] = {}
        self.session = 0
        """Number of the attempt: another one may be on another machine, so that only runs of one are pairs."""

    def alone(self) -> None:
        """Let no other driver measure in the same folder at the same time."""
        os.makedirs(self.runs, exist_ok=True)
        self.lock = os.open(self.runs, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another benchmark runs in {os.getcwd()}")
        except OSError:  # no locks there
            pass

    def resume(self) -> None:
        """Take what this and earlier attempts of the job have measured."""
        os.makedirs("benchmark", exist_ok=True)
        job = os.path.dirname(os.getcwd())
        earlier = os.path.join(job, "attempts")
        folders = sorted(os.listdir(earlier), key=len) if os.path.isdir(earlier) else []
        paths = [os.path.join(earlier, name, "work", self.path) for name in folders]
        kept = max(map(read, [*paths, self.path]), key=len)
        default = self.configurations[0]["name"]
        # A fault of the default has ended that attempt, and may have been the machine's: this one sees for itself.
        self.records = [record for record in kept if record["name"] != default or not record["fault"]]
        self.session = max([record.get("session", 0) + 1 for record in kept], default=0)
        with open(self.path + ".part", "w") as file:
            file.writelines(json.dumps(record) + "\n" for record in self.records)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path + ".part", self.path)
        if kept:
            print(f"goes on after {len(self.records)} repeats", flush=True)

    def keep(self, record: Dict[str, Any]) -> None:
        self.records.append(record)
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def once(self, number: int, block: int, attempt: int) -> Dict[str, Any]:
        """Run a configuration once and keep what it took."""
        configuration = self.configurations[number]
        run = Run(self.settings, configuration, os.path.join(os.getcwd(), self.runs, f"c{number}"))
        run.prepare()
        record = {
            "name": configuration["name"], "session": self.session, "block": block, "attempt": attempt, "fault": None,
        }  # fmt: skip
        record.update(run.measure(self.limit(number)))
        run.check_inputs()
        record.update(run.phases())
        if record["code"] != 0:
            ended = "was ended after {:.0f} s".format(record["wall"])
            end = ended if record["code"] is None else "ended with code {}".format(record["code"])
            record["fault"] = "{}: {}".format(end, tail(os.path.join(run.folder, "output.log")))
        else:
            record["fault"] = run.off() if number else None
            if self.settings["compare"]:
                record.update(self.compared(run, number, record["fault"]))
        record["fault"] = printable(record["fault"]) if record["fault"] else None
        limit = self.settings["others"] * processors()
        record["disturbed"] = record.get("others", 0.0) > limit
        self.keep(record)
        if record["fault"]:
            self.dropped[number] = record["fault"]
        return record

    def compared(self, run: Run, number: int, fault: Optional[str]) -> Dict[str, Any]:
        """Return how many results were compared with the default's, and what is wrong with them where nothing else is.

        Those of the default itself, which is the first one, tell what is to be compared.
        """
        results = run.results()
        if number == 0:
            self.reference.learn(results)
        return {
            "fault": fault or (self.reference.fault(results) if number else None),
            "compared": len(self.reference.comparable()),
        }

    def limit(self, number: int) -> Optional[float]:
        """Return the seconds after which a run is ended; None for the default, which only the job's wall time ends."""
        default = self.configurations[0]["name"]
        walls = [record["wall"] for record in self.records if record["name"] == default]
        return max(float(self.settings["hanging"]), SLOW * max(walls)) if number and walls else None

    def say(self, record: Dict[str, Any], what: str) -> None:
        note = record["fault"] or ("disturbed by other work" if record["disturbed"] else "")
        line = "{}  {:.3f} s  {}{}".format(what, record["wall"], record["name"], "  " + note if note else "")
        print(line, flush=True)

    def warm_up(self) -> None:
        """Run each configuration once; the default twice, so that it is known how far its own results differ."""
        for number in [0, *range(len(self.configurations))]:
            if number not in self.dropped:
                self.say(self.once(number, -1, 0), "warm-up")
            if 0 in self.dropped:
                fail(f"the default {self.dropped[0]}")

    def round(self, block: int) -> None:
        order = [number for number in range(len(self.configurations)) if number not in self.dropped]
        random.Random(f"{self.seed}-{block}").shuffle(order)
        done = {r["name"] for r in self.records if r["block"] == block and not r["disturbed"]}
        for number in order:
            if self.configurations[number]["name"] in done:
                continue
            for attempt in range(self.settings["retries"] + 1):
                record = self.once(number, block, attempt)
                self.say(record, f"round {block + 1}")
                if record["fault"] or not record["disturbed"] or self.late():
                    break
        if 0 in self.dropped:
            fail(f"the default {self.dropped[0]}")

    def late(self) -> bool:
        """Return whether no round may begin any more."""
        return time.monotonic() - self.began > float(self.settings["seconds"])

    def narrow(self) -> bool:
        """Return whether the mean of each configuration is known well enough."""
        for number, configuration in enumerate(self.configurations):
            if number in self.dropped:
                continue
            name = configuration["name"]
            logs = [math.log(r["wall"]) for r in self.records if counts(r) and r["name"] == name]
            if len(logs) < max(3, self.settings["least"]):
                return False
            t = T975[min(len(logs) - 2, len(T975) - 1)]
            if t * statistics.stdev(logs) / math.sqrt(len(logs)) > self.settings["width"]:
                return False
        return True

    def go(self) -> None:
        self.alone()
        self.resume()
        names = {configuration["name"]: number for number, configuration in enumerate(self.configurations)}
        self.dropped = {names[r["name"]]: r["fault"] for r in self.records if r["fault"] and r["name"] in names}
        # The results of runs before an interruption are gone: the comparison starts anew with a warm-up.
        self.warm_up()
        first = max([r["block"] for r in self.records], default=0)
        for block in range(max(first, 0), self.settings["most"]):
            if self.late():
                print(f"the time limit is reached after {block} rounds", flush=True)
                break
            self.round(block)
            if block + 1 >= self.settings["least"] and self.narrow():
                print(f"the intervals are narrow enough after {block + 1} rounds", flush=True)
                break
        remove(self.runs)


def read(path: str) -> List[Dict[str, Any]]:
    """Return the repeats in a file: a line that was torn when the disk was full or the machine failed is left out."""
    repeats = []
    try:
        with open(path) as file:
            lines = [line for line in file if line.endswith("\n")]
    except (OSError, ValueError):
        return []
    for line in lines:
        try:
            repeats.append(json.loads(line))
        except ValueError:
            continue
    return repeats


def counts(record: Dict[str, Any]) -> bool:
    return bool(record["block"] >= 0) and not record["disturbed"] and not record["fault"]


def end(number: int, _: Any) -> NoReturn:
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, end)
    try:
        control = ctypes.CDLL(None).prctl
        control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        control(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (OSError, AttributeError):
        pass
    if isinstance(sys.stdout, io.TextIOWrapper):  # a program's last words may be none of the locale's
        sys.stdout.reconfigure(errors="backslashreplace")
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    try:
        Benchmark(settings).go()
    except BaseException:
        end_all(GRACE)
        raise
