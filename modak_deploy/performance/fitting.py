"""Fitting of the time model: linear in log time, a richer one only where workloads held out say so."""

import hashlib
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.util import find_spec

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.engines.registry import of_framework
from modak_deploy.errors import InputError
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Measurement, Mix, Ratio
from modak_deploy.performance.estimators import PARTS, Estimator, Kind, Learning, Part, Row, Sheet, Strength, target
from modak_deploy.performance.features import LEVERS, VERSION, Case, Features, change, features
from modak_deploy.performance.intervals import LEVEL, HeldOut, errors_of, lengths, width_of_times, widths_of
from modak_deploy.performance.matching import own_phases
from modak_deploy.performance.records import Measurements
from modak_deploy.performance.seen import complete
from modak_deploy.performance.timemodel import (
    ANY,
    PHASES,
    Description,
    Fitted,
    Phase,
    PhaseModel,
    file_of,
    seconds_of,
    whole,
)

_LIBRARIES = ("sklearn", "skl2onnx", "onnxruntime", "threadpoolctl")
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_MARGIN = 0.95
"""A richer model is taken when its error is below this share of the linear one's."""
_FEWEST = 3
"""Workloads that a phase takes."""
_TURNS = 3
"""Units of a row and of the default in the same turns, from which these tell how much faster it is."""
FOLDS = 30
"""Parts of the workloads that are held out in turn at most, so that fitting takes as long as there are records."""


class TooFewError(InputError):
    """Nothing can be learned across so few workloads."""


@dataclass(frozen=True)
class Fit:
    """A model ready to be written."""

    description: Description
    contents: dict[str, bytes]
    """By the names of its files."""


@dataclass(frozen=True)
class _Choice:
    """The estimator of a phase, its error on workloads held out, and that of the other kind."""

    kind: Kind
    strength: Strength
    error: float
    other: float | None
    """None where it was sure to be too large before all workloads had been held out."""


def missing_library() -> str | None:
    """Return a library that fitting needs and that is not installed; None where all are there."""
    return next((name for name in _LIBRARIES if find_spec(name) is None), None)


def rows_of(records: Iterable[Measurement | Ratio], catalogue: Catalogue) -> list[Row]:
    """Return what can be learned from.

    A record whose work or hardware has no known size, or an impossible one, is left out; so is one that is known as a
    whole only, where others of its kind are known by their phases. What is known of units alone teaches steady times.
    What only some records of a workload know of its model, as those of jobs without the launcher do not, holds for all.
    """
    rows = []
    for record in _alike([record for record in records if isinstance(record, Measurement)]):
        case = Case(
            record.type, record.framework, record.workload, record.hardware, record.configuration, record.mix or {}
        )
        inputs = features(case, catalogue)
        if inputs is not None and all(map(math.isfinite, inputs.values())):
            rows.append(_row(record, case, inputs))
    phased = {row.inputs["training"] for row in rows if "start" in row.seconds}
    rows = [row for row in rows if row.units_alone or "start" in row.seconds or row.inputs["training"] not in phased]
    settings: dict[str, list[Row]] = {}
    for row in rows:
        settings.setdefault(row.setting, []).append(row)
    for setting in settings.values():
        default = min((row for row in setting if _plain(row)), key=_levers, default=None)
        setting[:] = [replace(_beside(row, default), default=row is default) for row in setting]
    return [row for setting in settings.values() for row in setting]


def _alike(records: Sequence[Measurement]) -> Iterator[Measurement]:
    """Yield records, each with what any record of its workload knows of the model."""
    by_workload: dict[str, list[Measurement]] = {}
    for record in records:
        by_workload.setdefault(str(record.workload.model), []).append(record)
    for same in by_workload.values():
        answers: dict[str, tuple[Workload, Mix | None]] = {}
        for record in same:
            key = f"{record.type} {record.framework} {record.workload.model_dump_json()}"
            if key not in answers:
                answers[key] = complete(record.type, record.framework, record.workload, same)
            workload, mix = answers[key]
            yield record.model_copy(update={"workload": workload, "mix": record.mix or mix})


def _beside(row: Row, default: Row | None) -> Row:
    """Return a row of units that were measured in turns with the default's, by what both took in the same turns.

    A machine whose speed changes meanwhile changes the medians of all units, and not what is compared in turns.
    """
    turns = sorted(row.turns.keys() & default.turns.keys()) if default is not None and default is not row else []
    if default is None or len(turns) < _TURNS:
        return row
    steady = default.seconds["steady"] * statistics.median(row.turns[turn] / default.turns[turn] for turn in turns)
    total = row.total + (steady - row.seconds["steady"]) * row.units
    return replace(row, seconds={**row.seconds, "steady": steady}, total=total)


def _plain(row: Row) -> bool:
    """Whether the framework is the one that is there without a choice."""
    engines = (of_framework(name.removeprefix("runs:")) for name in row.inputs if name.startswith("runs:"))
    return not any(engine is not None and engine.stands_in for engine in engines)


def _levers(row: Row) -> int:
    return sum(1 for name, value in row.inputs.items() if value and name.startswith(LEVERS))


def _row(record: Measurement, case: Case, inputs: Features) -> Row:
    parts = (
        record.hardware.identity(),
        record.workload.model_dump_json(),
        record.provenance.source,
    )
    units = record.workload.units
    seconds: dict[Phase, float] = {}
    published = record.summary
    alone = bool(published.steady) if published is not None else all(run.total is None for run in record.runs)
    if published is not None:
        total = published.mean
        seconds["steady"] = total / units
    elif alone:
        seconds["steady"] = statistics.median(run.later_unit or run.first or 0.0 for run in record.runs)
        if all(run.first is not None and run.later for run in record.runs):
            firsts = ((run.first or 0.0) - (run.later_unit or 0.0) for run in record.runs)
            seconds["compile"] = max(0.0, statistics.median(firsts))
        total = units * seconds["steady"]
    else:
        phases = [own_phases(run, record) for run in record.runs]
        whole_run = [part for part in phases if part.distinguished]
        total = statistics.median(part.total for part in whole_run or phases)
        seconds["steady"] = statistics.median(part.steady for part in whole_run or phases)
        if whole_run:
            seconds["start"] = statistics.median(part.start for part in whole_run)
            seconds["compile"] = statistics.median(part.compile for part in whole_run)
    setting = "|".join(parts)
    return Row(
        workload=str(record.workload.model),
        case=case,
        setting=setting,
        default=False,
        inputs=inputs,
        units=units,
        seconds=seconds,
        total=total,
        units_alone=alone,
        turns=_turns(record),
        published=published is not None,
    )


def _turns(record: Measurement) -> dict[tuple[int, int], float]:
    """Return the seconds of the units that a process did in turns with others, by its start and the turn."""
    runs = [run for run in record.runs if record.kind == "trial" and run.block is not None]
    steady = {(run.time or 0, run.block or 0): own_phases(run, record).steady for run in runs}
    return {turn: seconds for turn, seconds in steady.items() if seconds > 0}


def fit(measurements: Measurements, catalogue: Catalogue) -> Fit:
    """Return the model that all ``measurements`` give; TooFewError when they are too few."""
    # What comes while the records are read is then learned and counts as new, and not the other way round.
    origin, count, version = measurements.origin, measurements.count, measurements.version
    rows = rows_of(measurements.all_records(), catalogue)
    workloads = sorted({row.workload for row in rows})
    if len(workloads) < _FEWEST:
        raise TooFewError(
            f"a time model needs measurements of at least three workloads of known size, and there are {len(workloads)}"
        )
    with _one_thread():
        processors, contents = _fitted(_own([row for row in rows if not row.inputs["gpu"]]))
        gpu, contents_of_gpu = _fitted(_own([row for row in rows if row.inputs["gpu"]]))
    description = Description(
        phases=processors.phases,
        half_width=processors.half_width,
        half_width_ratio=processors.half_width_ratio,
        gpu=gpu if gpu.phases else None,
        features_version=VERSION,
        data=version,
        measurements=count,
        origin=origin,
        catalogue=catalogue.version,
        level=LEVEL,
    )
    return Fit(description, {**contents, **contents_of_gpu})


def _own(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows that were measured by programs of modak's, where these are enough, and else all.

    A publication's seconds come from software of its time, by a count that it may not tell: three of them, 16 to
    220 times as long as those of the same networks measured since, spoiled what all others teach.
    """
    own = [row for row in rows if not row.published]
    return own if len({row.workload for row in own}) >= _FEWEST else rows


def _one_thread() -> AbstractContextManager[None]:
    """Have the many products of small matrices done by one thread each.

    Several gain nothing on them, and on a busy machine wait for each other: 14 s in place of 2 on two cores beside two
    other processes (OpenBLAS 0.3.30).
    """
    import numpy  # noqa: F401  what is not loaded yet has no threads that could be limited
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[None] = threadpool_limits(limits=1, user_api="blas")
    return limits


def _fitted(rows: Sequence[Row]) -> tuple[Fitted, dict[str, bytes]]:
    """Return what the rows of one kind of device give, and the files of its phases by their names.

    Devices have nothing in common but the names of levers, whose gains differ: fitted together, each made the times of
    the other worse.
    """
    phases: dict[Phase, PhaseModel] = {}
    contents: dict[str, bytes] = {}
    choices: dict[Phase, _Choice] = {}
    for phase in PHASES:
        learning = Sheet.of(rows, phase).whole().without(())
        if len({row.workload for row in learning.rows}) < _FEWEST:
            continue
        choice = choices[phase] = _choose(learning)
        content = learning.fitted(choice.kind, choice.strength).onnx()
        phases[phase] = PhaseModel(
            kind=choice.kind,
            features=learning.names,
            ranges=learning.ranges,
            limits=learning.limits,
            together=learning.together,
            sha256=hashlib.sha256(content).hexdigest(),
            records=len(learning.rows),
            error=choice.error,
            error_other=choice.other,
        )
        contents[file_of(phase, phases[phase].sha256)] = content
    held_out = _held_out(rows, choices)
    half_width = width_of_times(errors_of(held_out))
    return Fitted(phases=phases, half_width=half_width, half_width_ratio=widths_of(held_out)), contents


class Errors:
    """Absolute errors of times (``between``), of all ratios (``any``), and of ratios by what differs.

    Each workload counts once, however many configurations were measured of it.
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = {}

    def by_workload(self, name: str) -> dict[str, float]:
        """Return the means of one kind for each workload."""
        return {workload: statistics.fmean(errors) for workload, errors in self._values.get(name, {}).items()}

    def mean(self, name: str) -> float:
        """Return the mean of one kind; 0 where there is none."""
        return statistics.fmean(self.by_workload(name).values() or (0.0,))

    def add(self, errors: Sequence[tuple[Row, float]]) -> None:
        """Take the errors of some rows in."""
        bases = {row.setting: (row, error) for row, error in errors if row.default}
        for row, error in errors:
            self._add("between", row, error)
            base, other = bases.get(row.setting, (row, error))
            if row is not base:
                for name in (ANY, change(base.inputs, row.inputs)):
                    self._add(name, row, error - other)

    def _add(self, name: str, row: Row, error: float) -> None:
        self._values.setdefault(name, {}).setdefault(row.workload, []).append(abs(error))


def _folds(rows: Sequence[Row]) -> list[frozenset[str]]:
    """Return the workloads that are held out in turn: one at a time, of many as many as give FOLDS parts."""
    workloads = sorted({row.workload for row in rows})
    number = min(len(workloads), FOLDS)
    return [frozenset(workloads[first::number]) for first in range(number)]


@dataclass(frozen=True)
class _Fold:
    """Workloads that are held out: their rows that can be predicted, and what a model for them is fitted to."""

    testing: Sequence[Row]
    learning: Learning
    """Not prepared for fits: what that takes would be kept for all folds at once."""

    def add(self, kind: Kind, strengths: Sequence[Strength], sums: Sequence[Errors]) -> None:
        """Add the errors of each of the strengths, prepared for once."""
        rest = Learning(self.learning.sheet, self.learning.numbers)
        inputs, targets = [row.inputs for row in self.testing], [target(row, rest.sheet.phase) for row in self.testing]
        for strength, error in zip(strengths, sums, strict=True):
            predicted = rest.fitted(kind, strength).predict(inputs)
            error.add([(row, value - its) for row, value, its in zip(self.testing, predicted, targets, strict=True)])


def _choose(learning: Learning) -> _Choice:
    """Return the estimator that errs least on workloads held out."""
    folds: list[_Fold] = []
    for part in _folds(learning.rows):
        rest = learning.without(part)
        predictable = [row for row in learning.rows if row.workload in part and not rest.refuses(row)]
        if predictable:
            folds.append(_Fold(predictable, Learning(rest.sheet, rest.numbers)))
    strength: dict[Part, float] = dict.fromkeys(PARTS, 3.0)
    linear = Errors()
    for level in PARTS:
        tried = {penalty: Errors() for penalty in _PENALTIES}
        for fold in folds:
            fold.add("ridge", [{**strength, level: penalty} for penalty in tried], list(tried.values()))
        means = {penalty: error.mean(level) for penalty, error in tried.items()}
        strength[level] = min(reversed(_PENALTIES), key=means.__getitem__)
        linear = tried[strength[level]]  # in the end with all of them
    between = linear.mean("between")
    richer = _richer(folds, strength, linear)
    if richer is not None and richer.mean(ANY) <= linear.mean(ANY):
        return _Choice("boosting", strength, richer.mean("between"), between)
    return _Choice("ridge", strength, between, None if richer is None else richer.mean("between"))


def _richer(folds: Sequence[_Fold], strength: Strength, linear: Errors) -> Errors | None:
    """Return the errors of boosted trees, None as soon as these are sure not to be clearly below the linear ones.

    What the linear model errs most with comes first: trees took three fifths of the time, and were hardly ever chosen.
    """
    errors = linear.by_workload("between")
    most, richer = _MARGIN * sum(errors.values()), Errors()

    def erred(fold: _Fold) -> float:
        return sum(errors[workload] for workload in {row.workload for row in fold.testing})

    for fold in sorted(folds, key=erred, reverse=True):
        fold.add("boosting", [strength], [richer])
        if sum(richer.by_workload("between").values()) >= most:
            return None
    return richer if folds else None


def _held_out(rows: Sequence[Row], choices: dict[Phase, _Choice]) -> list[HeldOut]:
    """Return each row, at all its lengths, as a model tells it that was fitted without its workload."""
    learnings = {phase: Sheet.of(rows, phase).whole() for phase in choices}
    held_out: list[HeldOut] = []
    for part in _folds(rows):
        models: dict[Phase, tuple[Estimator, Learning]] = {}
        for phase, choice in choices.items():
            rest = learnings[phase].without(part)
            if rest.numbers:
                models[phase] = (rest.fitted(choice.kind, choice.strength), rest)
        for row in (row for row in rows if row.workload in part):
            mine = {phase: models[phase] for phase in row.seconds if phase in models}
            refused = any(rest.refuses(row) for _, rest in mine.values())
            parts = {phase: seconds_of(model.predict([row.inputs])[0], phase) for phase, (model, _) in mine.items()}
            for units in lengths(row):
                held_out.append(HeldOut(row, units, None if refused or "steady" not in parts else whole(parts, units)))
    return held_out
