"""What the launcher wrote in a job: read with bounds, and checked, since the job may have written anything there."""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from modak_deploy.jobs.job import Job
from modak_deploy.jobs.remote import call
from modak_deploy.model.base import Model
from modak_deploy.model.job import GIVEN_UP, NOT_TRIED, ROUNDS, Counted, Settled, Trial, Tuning
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport
from modak_deploy.util.text import plural
from modak_deploy.util.units import clock

FILES = 64
"""Records that are read, of one process each."""
BYTES = 256 * 1024
"""Bytes of one that are read."""
ENTRIES = 1000
"""Entries of a kind that are kept; the launcher writes at most 400."""
LINES = 5 * ENTRIES
"""Lines of a record that are read."""
TIMES = 100
_REPORTED = 20
_FEWEST = 10
"""Units from which their time is told while the job runs."""
DEFAULT = "default"
"""The launcher's name for the program as it is."""
T = TypeVar("T", bound=Model)


@dataclass
class _Process:
    """The record of one process."""

    counted: list[Counted] = field(default_factory=list)
    levers: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    not_used: list[str] = field(default_factory=list)
    holders: Counter[str] = field(default_factory=Counter)
    """How many objects have a lever that was chosen for them before the run."""
    given_up: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Why an object gave one up, and when."""
    ended: float = 0.0
    """When the process ended, by its own clock."""
    settled_before: int = 0
    """How many of the trials are those before the last word on what the program went on with."""
    peak_memory: int | None = None

    @property
    def lost(self) -> list[str]:
        """Sentences on levers that no object had for most of the time, and that did not fail."""
        failed = {sentence.partition(": ")[2] for sentence in self.not_used}
        return [
            f"{name}: {GIVEN_UP}{reason}"
            for name, (reason, when) in self.given_up.items()
            if self.holders[name] <= 0 and reason not in failed and when <= self.ended / 2
        ]

    @property
    def work(self) -> tuple[bool, float]:
        """Return by what the process that did the work is told from the others."""
        return bool(self.trials), sum(counted.seconds for counted in self.counted)


def read_tuning(transport: Transport, job: Job) -> Tuning | None:
    """Return what the launcher wrote; None for a job without it."""
    if job.request.launch is None:
        return None
    answer = call(transport, "launched", [job.spec.directory, str(FILES), str(BYTES)])
    texts = [text for name, text in answer.parts if name == "record"][:FILES]
    return parse_tuning(texts, answer.integer("total", most=10**9))


def parse_tuning(texts: Sequence[str], total: int) -> Tuning:
    """Return what the records of ``total`` processes say, of which ``texts`` are there.

    Of several processes the one that tried levers, or else worked the longest, is told of. What cannot be read is
    counted and left out.
    """
    unreadable = 0
    processes: list[_Process] = []
    for text in texts:
        process = _Process()
        lines = text.splitlines()
        unreadable += len(lines[LINES:])
        for line in lines[:LINES]:
            if line.strip() and not _take(line, process):
                unreadable += 1
        processes.append(process)
    main = max(processes, key=lambda process: process.work, default=_Process())
    incomplete = [f"{unreadable} entries of the launcher's records cannot be read"] if unreadable else []
    if total > len(texts):
        incomplete.append(f"{total - len(texts)} of {total} records were not read")
    return Tuning(
        processes=total,
        counted=sorted(main.counted, key=lambda counted: -counted.seconds)[:ENTRIES],
        levers=list(dict.fromkeys(main.levers))[:ENTRIES],
        trials=main.trials[:ENTRIES],
        settled=main.settled[:ENTRIES],
        not_used=list(dict.fromkeys([*main.not_used, *main.lost]))[:ENTRIES],
        peak_memory=main.peak_memory,
        incomplete=incomplete,
    )


def _take(line: str, process: _Process) -> bool:
    """Add an entry to what is known of a process; return whether it could be read."""
    try:
        entry = json.loads(line, parse_constant=_no_number)
        take = _KINDS.get(entry["event"]) if isinstance(entry, dict) else None
        if take is not None:
            take(entry, process)
        return isinstance(entry, dict)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, ValidationError):
        return False


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _state(entry: Mapping[str, Any], process: _Process) -> None:
    if entry["name"] == "process":
        process.peak_memory = _made(Tuning, {"peak_memory": entry["peak_memory"]}).peak_memory
        return
    names = ("units", "seconds", "start", "compile", "steady", "elapsed", "left", "forecast", "loss")
    features = entry.get("features", {})
    shown = {key: _plain(value) for key, value in list(features.items())[:TIMES]}
    values = {key: entry[key] for key in names if key in entry}
    # A loss that is not finite is written as text.
    if isinstance(values.get("loss"), str):
        del values["loss"]
    said = {"name": _plain(entry["name"]), "unit": _plain(entry["unit"]), "features": shown}
    process.counted.append(_made(Counted, {**values, **said}))


def _trial(entry: Mapping[str, Any], process: _Process) -> None:
    names = ("kept", "failed", "seconds", "gain", "one_time", "difference", "rival_cost", "background")
    process.trials.append(
        _made(
            Trial,
            {
                **{key: entry[key] for key in names if key in entry and not isinstance(entry[key], str)},
                **_times(entry),
                "of": _plain(entry["of"]),
                "levers": _levers(entry["variant"]),
                "result": _plain(entry["result"]),
            },
        )
    )


def _drift(entry: Mapping[str, Any], process: _Process) -> None:
    """The best variant and what trials started from were measured again, in turns."""
    beside = " + ".join(_levers(entry.get("rival", DEFAULT))) or "the default"
    said = {"of": _plain(entry["of"]), "levers": _levers(entry["variant"]), "result": f"measured again with {beside}"}
    gain = entry.get("gain", entry["default_again"] / entry["best"])
    values = {"seconds": entry["best"], "gain": gain, "kept": entry["kept"]}
    process.trials.append(_made(Trial, {**said, **values, **_times(entry)}))


def _times(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "times": list(entry.get("times", []))[:TIMES],
        "rival": _levers(entry.get("rival", DEFAULT)),
        "rival_times": list(entry.get("rival_times", []))[:TIMES],
    }


def _surveyed(entry: Mapping[str, Any], process: _Process) -> None:
    """All sets of levers did units in turns, in rounds of which each set tells its own."""
    names = {"gain": "gain", "once": "one_time", "difference": "difference"}
    values = {key: entry[name] for name, key in names.items() if name in entry and not isinstance(entry[name], str)}
    times, rounds = list(entry["times"]), list(entry["rounds"])
    if not times or len(times) != len(rounds) or not all(0 <= number < ROUNDS for number in rounds):
        raise ValueError("a survey has one time of each round")
    rounds = [len(process.settled) * ROUNDS + number for number in rounds]
    said = {
        "of": _plain(entry["of"]),
        "levers": entry["levers"],
        "result": f"surveyed in {plural(len(times), 'round')}",
    }
    values |= {"seconds": statistics.median(times), "times": times[:TIMES], "rounds": rounds[:TIMES]}
    process.trials.append(_made(Trial, {**said, **values}))


def _settled(entry: Mapping[str, Any], process: _Process) -> None:
    values = {key: entry[key] for key in ("gain", "lost", "after_units", "switching") if key in entry}
    said = {"of": _plain(entry["of"]), "levers": _levers(entry["variant"]), "reason": _plain(entry["reason"])}
    settled = _made(Settled, {**values, **said})
    process.settled.append(settled)
    # A survey tells its sets just before it tells with which of them the program went on.
    for number in range(process.settled_before, len(process.trials)):
        trial = process.trials[number]
        if trial.rounds and trial.levers and (trial.of, trial.levers) == (settled.of, settled.levers):
            process.trials[number] = trial.model_copy(update={"kept": True})
    process.settled_before = len(process.trials)


def _fallback(entry: Mapping[str, Any], process: _Process) -> None:
    process.not_used.append(f"{_plain(entry['what'])}: {_plain(entry['reason'])}")


def _not_tried(entry: Mapping[str, Any], process: _Process) -> None:
    process.not_used.append(f"{_plain(entry['lever'])}: {NOT_TRIED}{_plain(entry['reason'])}")


def _lever(entry: Mapping[str, Any], process: _Process) -> None:
    process.levers += _made(Trial, {"of": "-", "levers": [entry["lever"]], "result": "-"}).levers


def _chosen(entry: Mapping[str, Any], process: _Process) -> None:
    names = _made(Trial, {"of": "-", "levers": _levers(entry["variant"]), "result": "-"}).levers
    process.levers += names
    process.holders.update(names)


def _given_up(entry: Mapping[str, Any], process: _Process) -> None:
    names = _made(Trial, {"of": "-", "levers": _levers(entry["variant"]), "result": "-"}).levers
    process.holders.subtract(names)
    process.given_up.update(dict.fromkeys(names, (_plain(entry["reason"]), float(entry["time"]))))


def _end(entry: Mapping[str, Any], process: _Process) -> None:
    process.ended = float(entry.get("time", 0.0))


_KINDS: Mapping[object, Callable[[Mapping[str, Any], _Process], None]] = {
    "state": _state,
    "trial": _trial,
    "drift": _drift,
    "surveyed": _surveyed,
    "settled": _settled,
    "fallback": _fallback,
    "not_tried": _not_tried,
    "lever": _lever,
    "chosen": _chosen,
    "given_up": _given_up,
    "end": _end,
}


def _made(model: type[T], values: dict[str, Any]) -> T:
    return model.model_validate(values)


def _levers(variant: object) -> list[str]:
    names = variant.split(" + ") if isinstance(variant, str) else [""]
    return [] if names == [DEFAULT] else names


def _plain(value: object) -> Any:
    """Return a text of the job's as it can be shown; another plain value as it is."""
    return (excerpt(value, 300) or "-") if isinstance(value, str) else value


def progress(text: str, units: int | None) -> str | None:
    """Return how far a job is, by the end of a record, as a clause; None where nothing is known yet.

    ``units`` is how many there are in all, where that is known.
    """
    counted = next(iter(parse_tuning([text], 1).counted), None)
    if counted is None or not counted.steady or counted.units < _FEWEST:
        return None
    total = f" of {units}" if units is not None and units >= counted.units else ""
    rate = f"{counted.units}{total} {_plural(counted.unit, counted.units)}, {1 / counted.steady:.3g} a second"
    if not total or units is None:
        return rate
    left = (units - counted.units) * counted.steady if counted.left is None else counted.left
    return f"{rate}, about {clock(round(left))} to go"


def lines(tuning: Tuning) -> Iterator[str]:
    """Yield what was counted and tried, one line each, for people."""
    for counted in tuning.counted[:_REPORTED]:
        steady = "" if counted.steady is None else f", {_duration(counted.steady)} each"
        yield f"{counted.name}: {counted.units} {_plural(counted.unit, counted.units)}{steady}"
    for trial in tuning.trials[:_REPORTED]:
        yield f"tried {_trial_text(trial)}"
    for settled in tuning.settled[-_REPORTED:]:
        gain = (
            "" if settled.gain is None or not settled.levers else f", {settled.gain:.2f} times as fast as the default"
        )
        yield f"{settled.of} went on with {_name(settled.levers)}{gain}: {settled.reason}"
    for sentence in [*tuning.not_used[:_REPORTED], *tuning.incomplete]:
        yield f"not used: {sentence}" if sentence not in tuning.incomplete else sentence
    if (more := sum(max(0, len(part) - _REPORTED) for part in (tuning.counted, tuning.trials, tuning.not_used))) > 0:
        yield f"and {more} more, in the job's result"


def _trial_text(trial: Trial) -> str:
    text = _name(trial.levers)
    if trial.seconds is not None:
        text += f": {_duration(trial.seconds)} a unit"
        if trial.gain is not None:
            text += f", {trial.gain:.2f} times as fast as the default"
    if trial.background is not None:
        text += f", made ready in the background in {_duration(trial.background)}"
    return f"{text}: {trial.result}"


def _name(levers: Sequence[str]) -> str:
    return " + ".join(levers) or "the default"


def _plural(noun: str, count: int) -> str:
    return plural(count, noun).partition(" ")[2]


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
