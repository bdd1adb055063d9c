"""What a benchmark is asked to do, and what its repeats amount to."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from modak_deploy.errors import InputError
from modak_deploy.model.base import LONGEST_SECONDS, Line, Model, NonNegative, Positive, Seconds, SecondsAboveZero, Text
from modak_deploy.performance.recording import MOST_UNITS, alike_units, units_asked
from modak_deploy.performance.statistics import (
    Interval,
    Moments,
    grouped_ratio_interval,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
    t975,
)
from modak_deploy.reported import MAX_TIME

MAD = 1.4826
"""Median absolute deviation to standard deviation, of normally distributed values."""
DEVIATIONS, LEAST_APART = 3.5, 0.05
FEWEST = 8
"""Runs from which on there are outliers: of fewer nobody can say what is usual."""
_TASK, _SESSION, _SESSIONS = 100_000, 10**10, 10**6
"""Rounds between those of two tasks, and of two attempts, where the rounds of all have one numbering."""
Load = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
"""Processes that want a processor, on average."""


class Protocol(Model):
    """How a benchmark is carried out."""

    least: Positive = 5
    """Rounds that are made in any case."""
    most: Positive = 30
    """Rounds after which it ends."""
    width: Annotated[float, Field(gt=0, le=1)] = 0.03
    """Half-width of the 95 % interval of each mean, as a share of it, at which it ends."""
    seconds: Positive = 3600
    """Time after which no round begins."""
    hanging: Positive = 600
    """Seconds after which a run is ended that takes ten times as long as the default's longest: it hangs."""
    seed: NonNegative = 1
    """Of the order within the rounds."""
    retries: NonNegative = 2
    """How often a disturbed run is repeated within its round."""
    others: Annotated[float, Field(gt=0)] = 0.1
    """Share of the processors that other processes may use while a run is not disturbed."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 1e-4
    """Relative difference of results from the default's, beyond which a configuration is wrong."""
    compare: bool = True
    """Whether results are compared at all."""
    sample: Annotated[float, Field(gt=0, le=10)] = 0.1
    """Seconds between two samples of memory."""


class Repeat(Model):
    """One run, as the driver wrote it."""

    name: Line
    block: Annotated[int, Field(ge=-1, le=10**9)]
    """Number of the round; -1 for the warm-up."""
    session: Annotated[int, Field(ge=0, lt=_SESSIONS)] = 0
    """Number of the attempt of the job: that before may have been on another machine, or hours ago."""
    attempt: NonNegative = 0
    fault: Text | None = None
    """Why its configuration does not count."""
    time: Annotated[int, Field(ge=0, le=int(MAX_TIME))]
    load: Load
    code: Annotated[int, Field(ge=-65535, le=65535)] | None = None
    wall: Annotated[float, Field(ge=1e-6, le=LONGEST_SECONDS, allow_inf_nan=False)]
    cpu: Seconds
    """Processor seconds of all its processes."""
    others: Load | None = None
    """Processors that other processes used meanwhile, on average."""
    disturbed: bool = False
    compared: NonNegative = 0
    """How many results were compared."""
    peak: NonNegative | None = None
    memory: list[NonNegative] = []
    """Resident bytes of all its processes over time."""
    step: Seconds = 0.1
    first: SecondsAboveZero | None = None
    later: list[SecondsAboveZero] = []
    start: Seconds | None = None
    compile: Seconds | None = None
    steady: Seconds | None = None
    units: NonNegative | None = None
    elapsed: Seconds | None = None

    @property
    def number(self) -> int:
        """Number of the round among those of all attempts of the job, of which each compares its own runs alone."""
        return self.session * _SESSION + self.block

    def turn(self, tasks: Sequence[str] = ()) -> str:
        """Return when it was made, in words: the round, with its attempt from the second one on.

        ``tasks`` are the numbers of an array's tasks, in whose order the files were read.
        """
        task, number = divmod(self.block, _TASK) if self.block >= 0 else (0, -1)
        text = f"round {number + 1}" if number >= 0 else "the warm-up"
        text += f" of task {tasks[task]}" if tasks and number >= 0 else ""
        return text + (f" in attempt {self.session + 1}" if self.session else "")

    @property
    def machine(self) -> int:
        """Number of the attempt and the task, each of which may have had a machine of its own."""
        return self.number // _TASK

    def unit_seconds(self, asked: int) -> list[float]:
        """Return the seconds of each of the workload's ``asked`` units in their order; empty where nobody told them."""
        if self.first is not None:
            units = units_asked([self.first, *self.later], self.wall, asked)
            return units if self.first + sum(self.later) <= self.wall else []
        if self.steady and self.units and self.units > 1 and 1 < asked <= MOST_UNITS:
            # The launcher counts units of its own, such as steps of an epoch.
            return alike_units(self.steady * self.units / asked, self.compile or 0.0, self.wall, asked)
        return []


def read_repeats(folder: Path, names: Sequence[str] = ("repeats.jsonl",)) -> list[Repeat]:
    """Return the repeats in files of a folder; InputError names file, line and fault. The target wrote them.

    An earlier benchmark of the same name may have left files of tasks that this one does not have.
    """
    repeats: list[Repeat] = []
    for task, path in enumerate(folder / name for name in names):
        for number, line in enumerate(_text_of(path).splitlines(), start=1):
            try:
                repeat = Repeat.model_validate(json.loads(line))
            except (ValidationError, ValueError, RecursionError) as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{path}:{number}: not a repeat of a benchmark: {reason}") from None
            block = repeat.block if repeat.block < 0 else repeat.block + task * _TASK
            repeats.append(repeat.model_copy(update={"block": block}))
    return repeats


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(f"{path}: not found; the benchmark has not measured anything")
        if path.stat().st_size > 256 * 1024 * 1024:
            raise InputError(f"{path}: larger than 256 MiB")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class Outcome:
    """What was measured of one configuration."""

    name: str
    counted: Sequence[Repeat]
    """The repeats that count, in their order."""
    disturbed: int
    """Repeats that other work disturbed; where all were, the last of each round count."""
    outliers: int
    fault: str | None

    @property
    def walls(self) -> list[float]:
        """Wall seconds."""
        return [repeat.wall for repeat in self.counted]

    @property
    def mean(self) -> Interval:
        """Arithmetic mean with its 95 % interval; of a single run, whose spread nobody knows, a wide one."""
        walls = self.walls
        if len(walls) < 2:
            return prediction_interval(Moments.of_values(walls))
        mean = statistics.fmean(walls)
        half = t975(len(walls) - 1) * statistics.stdev(walls) / math.sqrt(len(walls))
        return Interval(mean, max(mean - half, 0.0), mean + half)

    @property
    def deviation(self) -> float | None:
        """Standard deviation; None for a single run."""
        return statistics.stdev(self.walls) if len(self.counted) > 1 else None

    @property
    def is_disturbed(self) -> bool:
        """Whether other work disturbed the runs that count, since there are no others."""
        return any(repeat.disturbed for repeat in self.counted)


def outcomes(repeats: Sequence[Repeat]) -> list[Outcome]:
    """Return what each configuration amounts to, in the order of their first runs.

    Left out are the warm-up, disturbed runs (unless all are), and outliers: further from the median of the logarithms
    than 3.5 standard deviations as the median absolute deviation gives them, and than 5 %, of eight runs or more of the
    same attempt and task.
    """
    by_name: dict[str, list[Repeat]] = {}
    for repeat in repeats:
        by_name.setdefault(repeat.name, []).append(repeat)
    results = []
    for name, mine in by_name.items():
        fault = next((repeat.fault for repeat in mine if repeat.fault), None)
        rounds = [repeat for repeat in mine if repeat.block >= 0 and not repeat.fault]
        quiet = [repeat for repeat in rounds if not repeat.disturbed]
        kept = quiet or _last_of_each(rounds)
        inner = _without_outliers(kept)
        disturbed = sum(repeat.disturbed for repeat in rounds)
        results.append(Outcome(name, inner, disturbed, len(kept) - len(inner), fault))
    return results


def _last_of_each(rounds: Sequence[Repeat]) -> list[Repeat]:
    return list({repeat.number: repeat for repeat in rounds}.values())


def _without_outliers(repeats: Sequence[Repeat]) -> Sequence[Repeat]:
    """Return the repeats that are no outliers among those of the same attempt and task.

    Another one may have run on another machine: that its times are unlike the others says nothing against them.
    """
    beside: dict[int, list[float]] = {}
    for repeat in repeats:
        beside.setdefault(repeat.machine, []).append(math.log(repeat.wall))
    middles = {machine: statistics.median(logs) for machine, logs in beside.items()}
    far = {machine: _far(logs) for machine, logs in beside.items()}
    return [repeat for repeat in repeats if abs(math.log(repeat.wall) - middles[repeat.machine]) <= far[repeat.machine]]


def _far(logs: Sequence[float]) -> float:
    """Return the distance from their median beyond which logarithms of seconds are outliers."""
    if len(logs) < FEWEST:
        return math.inf
    middle = statistics.median(logs)
    spread = MAD * statistics.median(abs(value - middle) for value in logs)
    return max(DEVIATIONS * spread, math.log1p(LEAST_APART))


def gain(default: Outcome, other: Outcome) -> Interval:
    """Return how many times as fast as the default a configuration is, by rounds where both have enough in common.

    Else it is compared machine by machine, where both ran on one, since the count of their runs there may differ.
    """
    blocks = [{repeat.number: repeat.wall for repeat in outcome.counted} for outcome in (default, other)]
    paired = paired_ratio_interval(*blocks)
    if paired is None and len({repeat.machine for repeat in [*default.counted, *other.counted]}) > 1:
        paired = grouped_ratio_interval(_by_machine(default), _by_machine(other))
    return paired or ratio_interval(Moments.of_values(default.walls), Moments.of_values(other.walls))


def _by_machine(outcome: Outcome) -> dict[int, list[float]]:
    walls: dict[int, list[float]] = {}
    for repeat in outcome.counted:
        walls.setdefault(repeat.machine, []).append(repeat.wall)
    return walls


def settings(protocol: Protocol, configurations: Sequence[dict[str, Any]], **more: Any) -> str:
    """Return the driver's settings as canonical JSON."""
    values = {**protocol.model_dump(), "configurations": list(configurations), **more}
    return json.dumps(values, sort_keys=True, indent=1) + "\n"
