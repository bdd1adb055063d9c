"""One run of one configuration, in a folder of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from .machine import Memory, adopt, busy, used
from .results import LARGE, Results, contents, metric_numbers

HERE = "/modak-benchmark-directory"
"""Stands for the folder of a run in commands and variables."""
WORKSPACE = "/modak-benchmark-workspace"
"""Stands for the target's workspace."""
PLAIN = re.compile(r"[A-Za-z0-9_./@%+=:,-]+")
LONGEST_SECONDS = 3e11
"""As in ``modak_deploy.model.base``, which is not there where this runs."""


class Run:
    """One run of one configuration in a folder of its own."""

    def __init__(self, settings: Dict[str, Any], configuration: Dict[str, Any], folder: str) -> None:
        self.settings, self.configuration = settings, configuration
        self.folder = folder
        self.work = os.path.join(folder, "work")
        self.linked: Dict[str, Tuple[int, int]] = {}
        """Size and time of large inputs, which all runs share."""

    def prepare(self) -> None:
        """Make a clean working directory: what an earlier repeat wrote is gone."""
        remove(self.folder)
        os.makedirs(self.folder)
        if os.path.isdir("app"):
            shutil.copytree("app", self.work, symlinks=True, copy_function=self.copy_or_link)
        else:
            os.mkdir(self.work)
        launch = self.configuration.get("launch")
        if launch is not None:
            os.mkdir(os.path.join(self.folder, "launch"))
            shutil.copy("modak_launch.zip", os.path.join(self.folder, "launch"))
            with open(os.path.join(self.folder, "launch", "config.json"), "w") as file:
                json.dump(launch, file)

    def copy_or_link(self, source: str, target: str) -> str:
        """Copy a file; link a large one."""
        if os.path.getsize(source) >= LARGE:
            try:
                os.link(source, target)
                self.linked[source] = state(source)
                return target
            except OSError:
                pass
        return shutil.copy2(source, target)

    def check_inputs(self) -> None:
        """End the benchmark where the run has changed an input that the next one would begin with."""
        for path, before in self.linked.items():
            if state(path) != before:
                fail(f"the program changes its input {os.path.relpath(path, 'app')}, which runs share for its size")

    def measure(self, limit: Optional[float]) -> Dict[str, Any]:
        """Run it; return what it took. It is ended after ``limit`` seconds, and has no code then."""
        environment = dict(os.environ)
        environment.update({key: self.here(value) for key, value in self.configuration["environment"].items()})
        command = self.here(self.configuration["command"], command=True)
        memory = Memory(self.settings.get("sample", 0.1))
        load, before, own = os.getloadavg()[0], busy(), used()
        with open(os.path.join(self.folder, "output.log"), "wb") as log:
            memory.start()
            when, begin = time.time(), time.perf_counter()
            process = subprocess.Popen(
                ["/bin/sh", "-c", command], cwd=self.work, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            wall = time.perf_counter() - begin
            if code is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            adopt(2.0)
            memory.stop()
        cpu, after, span = used() - own, busy(), time.perf_counter() - begin
        values = {
            "time": int(when), "load": round(load, 2), "code": code, "wall": round(wall, 6), "cpu": round(cpu, 4),
            "peak": memory.peak or None, "memory": memory.values, "step": memory.step,
        }  # fmt: skip
        if before is not None and after is not None:
            values["others"] = round(max(after - before - cpu, 0.0) / span, 4)
        return values

    def here(self, text: str, command: bool = False) -> str:
        """Return the text with the folders in place of what stands for them."""
        job = os.path.dirname(os.getcwd())
        for sign, path in ((HERE, self.folder), (WORKSPACE, os.path.dirname(os.path.dirname(job)))):
            if sign in text and command and not PLAIN.fullmatch(path):
                fail(f"the folder {path} holds characters that a shell knows; choose another workspace")
            text = text.replace(sign, path)
        return text

    def phases(self) -> Dict[str, Any]:
        """Return the seconds of start, compilation, the first unit and later units, as far as anybody tells them."""
        metrics = self.metrics()
        first, later = (metrics.get(self.settings[key]) for key in ("first_key", "later_key"))
        if seconds(first) and isinstance(later, list) and later and all(map(seconds, later)):
            return {"first": first, "later": later}
        counted = most_counted(self.main_process())
        if not counted:
            return {}
        values = {key: counted.get(key) for key in ("start", "compile", "steady", "elapsed")}
        phases = {key: value for key, value in values.items() if seconds(value) or (value == 0 and value is not False)}
        return {**phases, "units": counted["units"]} if type(counted.get("units")) is int else phases

    def main_process(self) -> List[Dict[str, Any]]:
        """Return what the launcher wrote of the process in which most units were counted; nothing where none was."""
        main: List[Dict[str, Any]] = []
        folder = os.path.join(self.folder, "launch", "record")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            try:
                with open(os.path.join(folder, name)) as file:
                    entries = [entry for entry in map(json.loads, file) if isinstance(entry, dict)]
            except (OSError, ValueError, RecursionError):
                continue
            if most_counted(entries).get("seconds", 0) > most_counted(main).get("seconds", 0):
                main = entries
        return main

    def off(self) -> Optional[str]:
        """Return which of the levers that it has inside the program was not on, and why; None where nobody tells.

        The launcher leaves out what a library or a network lacks something for, and gives up what fails, or what the
        program does not go with: the run is then one without it, and as fast as that. Several objects of the program
        may have it: it is on as long as one of them has it.
        """
        entries = self.main_process()
        levers = (self.configuration.get("launch") or {}).get("levers", []) if entries else []
        holders = dict.fromkeys(levers, 0)
        reasons: Dict[str, str] = {}
        of_all = "the launcher did not switch it on"
        for entry in entries:
            event, reason = entry.get("event"), str(entry.get("reason"))
            named = str(entry.get("lever") or entry.get("variant") or entry.get("what")).split(" + ")
            names = [name for name in named if name in holders]
            if event in ("lever", "chosen"):
                holders.update({name: holders[name] + 1 for name in names})
            elif event == "given_up":
                holders.update({name: holders[name] - 1 for name in names})
            if event in ("given_up", "fallback", "not_offered"):
                reasons.update(dict.fromkeys(names, reason))
            elif event == "no_trials":  # on an object, whichever levers there are
                of_all = reason
        lacking = next((name for name in levers if not holders[name]), None)
        return None if lacking is None else "{} was not on: {}".format(lacking, reasons.get(lacking, of_all))

    def metrics(self) -> Dict[str, Any]:
        """Return the application's metrics; nothing where it wrote none."""
        name = self.settings.get("metrics")
        try:
            with open(os.path.join(self.work, name or "")) as file:
                content = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def results(self) -> Results:
        """Return what is compared: numbers of metrics, and each output as numbers and as the text between them."""
        own = (self.settings.get("first_key"), self.settings.get("later_key"))
        texts = metric_numbers({key: value for key, value in self.metrics().items() if key not in own})
        for name in self.settings["outputs"]:
            top = os.path.join(self.work, name)
            paths = [os.path.join(d, f) for d, _, files in os.walk(top) for f in files] if os.path.isdir(top) else [top]
            for path in sorted(paths):
                if os.path.relpath(path, self.work) != self.settings.get("metrics"):
                    texts[os.path.relpath(path, self.work)] = contents(path)
        return texts


def most_counted(entries: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the counter of a process with the most time; an empty one where it has none."""
    states = [
        e for e in entries if e.get("event") == "state" and all(seconds(e.get(key)) for key in ("steady", "seconds"))
    ]
    return max(states, key=lambda e: float(e["seconds"]), default={})


def seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LONGEST_SECONDS


def remove(folder: str) -> None:
    """Remove a folder with what is in it, folders included that the program has made to be read only."""
    for top, names, _ in os.walk(folder):
        for path in [top, *(os.path.join(top, name) for name in names)]:
            if not os.path.islink(path):
                with suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def state(path: str) -> Tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def tail(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 400))
        text = re.sub(r"\x1b\[[0-9;]*m", "", file.read().decode("utf-8", "replace"))
    return " ".join(text.split())[-200:]


def printable(text: str) -> str:
    """Return a text of a program or the name of its file without what no line of a record holds."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def fail(text: str) -> NoReturn:
    sys.exit("modak benchmark: " + text)
