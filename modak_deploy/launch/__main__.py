"""Run a command under the launcher, without a deployment.

python -m modak_deploy.launch [OPTION ...] -- COMMAND [ARGUMENT ...]
"""

import argparse
import difflib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional

from . import bundle, lever, record
from .config import MODES, SURVEY, VARIABLE, VERSION, ConfigError, parse

PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
"""Signals that are meant for the command, where they are sent to the process that runs it."""


def main(arguments: List[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m modak_deploy.launch", description="Run a command under the launcher."
    )
    parser.add_argument("--list", action="store_true", help="list the levers and end")
    parser.add_argument("--lever", action="append", default=[], metavar="NAME", help="lever that is on from the start")
    parser.add_argument("--trials", choices=MODES, default="live",
                        help="whether to try levers in the run, or to survey all sets of them")  # fmt: skip
    parser.add_argument("--numerics", choices=("exact", "relaxed"), default="exact", help="what trials may change")
    parser.add_argument(
        "--candidate", action="append", metavar="NAME", help="lever to try; all that are permitted if absent"
    )
    parser.add_argument("--units", type=int, help="units of work in the whole run")
    parser.add_argument("--set", action="append", default=[], metavar="NAMES",
                        help="levers with + between them that a survey measures together in any case")  # fmt: skip
    parser.add_argument("--share", type=float, default=0.03, help="largest part of the time that trials may lose")
    parser.add_argument("--tolerance", type=float, help="largest relative difference of outputs")
    parser.add_argument("--record", metavar="FOLDER", help="folder for the record")
    parser.add_argument("--cache", metavar="FOLDER", help="folder that keeps conversions and compiled code")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command, after --")
    options = parser.parse_args(arguments)
    if options.list:
        _list()
        return 0
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("a command is required")
    config = _config(options)
    problem = _problem(options, config)
    if problem is not None:
        parser.error(problem)
    if options.trials != SURVEY:
        return _run(config, command)
    with tempfile.TemporaryDirectory(prefix="modak-survey-") as folder:
        config.setdefault("record", folder)
        earlier = os.listdir(config["record"]) if os.path.isdir(config["record"]) else []
        # A program that would not end by itself is interrupted, and tells at its end what it has so far.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            code = _run(config, command)
        finally:
            signal.signal(signal.SIGINT, before)
        _tell(config["record"], earlier)
    return code


def _problem(options: argparse.Namespace, config: Dict[str, Any]) -> Optional[str]:
    """Return what is wrong with the options: the command would run to its end without the launcher."""
    sets = [name for names in config["trials"].get("sets", ()) for name in names]
    named = options.lever or options.candidate or sets
    valid = [item.name for item in lever.all_levers()] if named else []
    for option, names in (("--lever", options.lever), ("--candidate", options.candidate or ()), ("--set", sets)):
        for name in names:
            if name not in valid:
                close = difflib.get_close_matches(name, valid, 1)
                hint = "did you mean '{}'?".format(close[0]) if close else "--list shows the levers"
                return "argument {}: no lever has the name '{}'; {}".format(option, name, hint)
    try:
        parse(config)
    except ConfigError as error:
        return "argument --{}".format(str(error).replace("trials.", "", 1))
    return None


def _tell(folder: str, earlier: List[str]) -> None:
    """Print what was surveyed; the folder may hold what ``earlier`` runs have left."""
    for event in record.events(folder, earlier):
        if event.get("event") == "surveyed" and "gain" in event:
            print("{:5.2f} {:>9.3g} ms  {}".format(
                event["gain"], 1e3 * statistics.median(event["times"]), " + ".join(event["levers"]) or "default"
            ))  # fmt: skip


def _list() -> None:
    for item in lever.all_levers():
        kind = "live" if item.live else "start"
        print(
            "{:28} {:12} {:8} {:6} {:14} {}".format(
                item.name, item.framework, item.numerics, kind, item.changes, item.summary
            )
        )


def _config(options: argparse.Namespace) -> Dict[str, Any]:
    trials = {
        "mode": options.trials,
        "numerics": options.numerics,
        "candidates": options.candidate,
        "units": options.units,
        "share": options.share,
        "tolerance": options.tolerance,
        "sets": [[name.strip() for name in names.split("+")] for names in options.set] or None,
    }
    config = {"version": VERSION, "levers": options.lever, "trials": {k: v for k, v in trials.items() if v is not None}}
    for key in ("record", "cache"):
        if getattr(options, key):
            config[key] = os.path.abspath(getattr(options, key))
    return config


def _run(config: Dict[str, Any], command: List[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="modak-launch-") as folder:
        bundle.write_folder(os.path.join(folder, "path"))
        file = os.path.join(folder, "config.json")
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(config, stream)
        old = os.environ.get("PYTHONPATH")
        path = os.path.join(folder, "path") + (os.pathsep + old if old else "")
        code = _done(command, {**os.environ, VARIABLE: file, "PYTHONPATH": path})
    return code if code >= 0 else 128 - code


def _done(command: List[str], environment: Dict[str, str]) -> int:
    """Run a command until its end, however long it takes after a signal that asks for it, and return its exit code."""
    early: List[int] = []
    process: Optional[subprocess.Popen] = None  # type: ignore[type-arg]

    def pass_on(number: int, _: Any) -> None:
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    handlers = {getattr(signal, name): pass_on for name in PASSED_ON if hasattr(signal, name)}
    handlers[signal.SIGINT] = lambda *_: None  # a terminal sends it to the command as well
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()
              if signal.getsignal(number) != signal.SIG_IGN}  # fmt: skip
    try:
        process = subprocess.Popen(command, env=environment)
        for number in early:
            process.send_signal(number)
        return process.wait()
    except OSError as error:
        print("{}: {}".format(command[0], error.strerror), file=sys.stderr)
        return 126 if isinstance(error, PermissionError) else 127
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
