"""Fitting of the time model: linear in log time, a richer one only where workloads held out say so."""

import hashlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.engines.registry import of_framework
from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.estimators import PARTS, Estimator, Kind, Part, Row, Strength, fitted, names_of, target
from modak_deploy.performance.features import VERSION, Case, Features, change, features, unknown
from modak_deploy.performance.intervals import LEVEL, HeldOut, errors_of, lengths, quantile, widths_of
from modak_deploy.performance.timemodel import ANY, PHASES, Description, Phase, PhaseModel, seconds_of, whole

_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_MARGIN = 0.95
"""A richer model is taken when its error is below this share of the linear one's."""
_FEWEST = 3
"""Workloads that a phase takes."""
Ranges = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Fit:
    """A model ready to be written."""

    description: Description
    contents: dict[Phase, bytes]


@dataclass(frozen=True)
class _Choice:
    """The estimator of a phase, its error on workloads held out, and that of the other kind."""

    kind: Kind
    strength: Strength
    error: float
    other: float


def rows_of(records: Iterable[Measurement | Ratio], catalogue: Catalogue) -> list[Row]:
    """Return what can be learned from.

    A record whose work or hardware has no known size is left out; so is one that is known as a whole only, where
    others of its kind are known by their phases.
    """
    rows = []
    for record in records:
        if not isinstance(record, Measurement):
            continue
        case = Case(
            record.type, record.framework, record.workload, record.hardware, record.configuration, record.mix or {}
        )
        inputs = features(case, catalogue)
        if inputs is not None:
            rows.append(_row(record, case, inputs))
    phased = {row.inputs["training"] for row in rows if "start" in row.seconds}
    rows = [row for row in rows if "start" in row.seconds or row.inputs["training"] not in phased]
    settings: dict[str, list[Row]] = {}
    for row in rows:
        settings.setdefault(row.setting, []).append(row)
    for setting in settings.values():
        default = min((row for row in setting if _plain(row)), key=_levers, default=None)
        setting[:] = [replace(row, default=row is default) for row in setting]
    return [row for setting in settings.values() for row in setting]


def _plain(row: Row) -> bool:
    """Whether the framework is the one that is there without a choice."""
    engines = (of_framework(name.removeprefix("runs:")) for name in row.inputs if name.startswith("runs:"))
    return not any(engine is not None and engine.stands_in for engine in engines)


def _levers(row: Row) -> int:
    return sum(1 for name, value in row.inputs.items() if value and name.startswith("lever:"))


def _row(record: Measurement, case: Case, inputs: Features) -> Row:
    parts = (record.hardware.model_dump_json(), record.workload.model_dump_json(), record.provenance.source)
    units = record.workload.units
    seconds: dict[Phase, float] = {}
    if record.summary is not None:
        total = record.summary.mean
        seconds["steady"] = total / units
    else:
        phased = [run for run in record.runs if run.later and run.start is not None and run.first is not None]
        total = statistics.median(run.total or (run.first or 0.0) + sum(run.later) for run in record.runs)
        if phased:
            later = [statistics.median(run.later) for run in phased]
            seconds["steady"] = statistics.median(later)
            seconds["start"] = statistics.median(run.start or 0.0 for run in phased)
            compiling = [max((run.first or 0.0) - usual, 0.0) for run, usual in zip(phased, later, strict=True)]
            seconds["compile"] = statistics.median(compiling)
        else:
            seconds["steady"] = total / units
    return Row(str(record.workload.model), case, "|".join(parts), False, inputs, units, seconds, total)


def fit(records: Sequence[Measurement | Ratio], version: str, catalogue: Catalogue) -> Fit:
    """Return the model that ``records``, of this ``version``, give; InputError when they are too few."""
    rows = rows_of(records, catalogue)
    workloads = sorted({row.workload for row in rows})
    if len(workloads) < _FEWEST:
        raise InputError(
            f"a time model needs measurements of at least three workloads of known size, and there are {len(workloads)}"
        )
    phases: dict[Phase, PhaseModel] = {}
    contents: dict[Phase, bytes] = {}
    choices: dict[Phase, _Choice] = {}
    for phase in PHASES:
        having = _learnable(_having(rows, phase))
        if len({row.workload for row in having}) < _FEWEST:
            continue
        choice = choices[phase] = _choose(having, phase)
        names, ranges = _ranges(having)
        contents[phase] = fitted(having, phase, choice.kind, choice.strength).onnx()
        phases[phase] = PhaseModel(
            kind=choice.kind,
            features=names,
            ranges=ranges,
            together=sorted({tuple(sorted(row.on)) for row in having}),
            sha256=hashlib.sha256(contents[phase]).hexdigest(),
            records=len(having),
            error=choice.error,
            error_other=choice.other,
        )
    held_out = _held_out(rows, choices)
    description = Description(
        features_version=VERSION,
        data=version,
        catalogue=catalogue.version,
        phases=phases,
        level=LEVEL,
        half_width=quantile(errors_of(held_out), LEVEL),
        half_width_ratio=widths_of(held_out),
    )
    return Fit(description, contents)


def _having(rows: Sequence[Row], phase: Phase) -> list[Row]:
    return [row for row in rows if phase in row.seconds]


def _learnable(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in which nothing is on that only one workload was measured with: nothing tests what it brings."""
    workloads: dict[str, set[str]] = {}
    for row in rows:
        for name in row.on:
            workloads.setdefault(name, set()).add(row.workload)
    return [row for row in rows if all(len(workloads[name]) > 1 for name in row.on)]


def _refused(row: Row, training: Sequence[Row]) -> bool:
    names, ranges = _ranges(training)
    return unknown(row.inputs, names, ranges, [other.on for other in training]) is not None


def _ranges(rows: Sequence[Row]) -> tuple[list[str], Ranges]:
    """Return the features of ``rows``, and between what values each lies."""
    names = names_of(rows)
    values = {name: [row.inputs.get(name, 0.0) for row in rows] for name in names}
    return names, {name: (min(column), max(column)) for name, column in values.items()}


def _folds(rows: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Return all but one workload, and that one, for each in turn."""
    workloads = sorted({row.workload for row in rows})
    return [([r for r in rows if r.workload != w], [r for r in rows if r.workload == w]) for w in workloads]


def _choose(rows: Sequence[Row], phase: Phase) -> _Choice:
    """Return the estimator that errs least on workloads held out."""
    folds = []
    for training, testing in _folds(rows):
        learnable = _learnable(training)
        folds.append((learnable, [row for row in testing if not _refused(row, learnable)]))

    def errors(kind: Kind, strength: Strength) -> dict[str, float]:
        """Return the mean absolute error of times ('between'), of all ratios, and of ratios by what differs."""
        by_kind: dict[str, list[float]] = {ANY: [], "between": []}
        for training, testing in folds:
            if not testing:
                continue
            predicted = fitted(training, phase, kind, strength).predict([row.inputs for row in testing])
            pairs = [(row, value - target(row, phase)) for row, value in zip(testing, predicted, strict=True)]
            by_kind["between"] += [abs(error) for _, error in pairs]
            bases = {row.setting: (row, error) for row, error in pairs if row.default}
            for row, error in pairs:
                base, other = bases.get(row.setting, (row, error))
                if row is not base:
                    by_kind[ANY].append(abs(error - other))
                    by_kind.setdefault(change(base.inputs, row.inputs), []).append(abs(error - other))
        return {name: statistics.fmean(values) if values else 0.0 for name, values in by_kind.items()}

    strength: dict[Part, float] = dict.fromkeys(PARTS, 3.0)
    for part in PARTS:
        tried = {p: errors("ridge", {**strength, part: p}).get(part, 0.0) for p in _PENALTIES}
        strength[part] = min(reversed(_PENALTIES), key=tried.__getitem__)
    linear, richer = errors("ridge", strength), errors("boosting", strength)
    if richer["between"] < _MARGIN * linear["between"] and richer[ANY] <= linear[ANY]:
        return _Choice("boosting", strength, richer["between"], linear["between"])
    return _Choice("ridge", strength, linear["between"], richer["between"])


def _held_out(rows: Sequence[Row], choices: dict[Phase, _Choice]) -> list[HeldOut]:
    """Return each row, at all its lengths, as a model tells it that was fitted without its workload."""
    held_out: list[HeldOut] = []
    for training, testing in _folds(rows):
        models: dict[Phase, tuple[Estimator, list[Row]]] = {}
        for phase, choice in choices.items():
            having = _learnable(_having(training, phase))
            models[phase] = (fitted(having, phase, choice.kind, choice.strength), having)
        for row in testing:
            mine = {phase: models[phase] for phase in row.seconds if phase in models}
            refused = any(_refused(row, having) for _, having in mine.values())
            parts = {phase: seconds_of(model.predict([row.inputs])[0], phase) for phase, (model, _) in mine.items()}
            for units in lengths(row):
                held_out.append(HeldOut(row, units, None if refused or "steady" not in parts else whole(parts, units)))
    return held_out
