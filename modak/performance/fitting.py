"""Fitting of the time model: linear in log time, a richer one only where workloads held out say so."""

import hashlib
import math
import statistics
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from modak.catalogue.catalogue import Catalogue
from modak.errors import InputError
from modak.model.measurement import Measurement, Ratio
from modak.performance.features import VERSION, Case, Features, features, vector
from modak.performance.timemodel import FLOOR, PHASES, Description, Held, Phase, PhaseModel

LEVEL = 0.9
_ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_MARGIN = 0.95
"""A richer model is taken when its error is below this share of the linear one's."""
Kind = Literal["ridge", "boosting"]
Array = Any
"""numpy arrays; scikit-learn has no types."""


@dataclass(frozen=True)
class Row:
    """One record as the model sees it."""

    workload: str
    setting: str
    """Records of one setting compare configurations of the same work on the same hardware."""
    default: bool
    found: Features
    units: int
    seconds: dict[Phase, float]
    total: float


@dataclass(frozen=True)
class Fit:
    """A model ready to be written."""

    description: Description
    contents: dict[Phase, bytes]


def rows_of(records: Iterable[Measurement | Ratio], catalogue: Catalogue) -> list[Row]:
    """Return what can be learned from; a record whose work or hardware has no known size is left out."""
    rows = []
    for record in records:
        if not isinstance(record, Measurement):
            continue
        case = Case(record.type, record.framework, record.workload, record.hardware, record.configuration)
        found = features(case, catalogue)
        if found is not None:
            rows.append(_row(record, found))
    fewest: dict[str, int] = {}
    counts = [sum(1 for name, value in row.found.items() if value and name.startswith("lever:")) for row in rows]
    for row, count in zip(rows, counts, strict=True):
        fewest[row.setting] = min(count, fewest.get(row.setting, count))
    first: set[str] = set()
    marked = []
    for row, count in zip(rows, counts, strict=True):
        default = count == fewest[row.setting] and row.setting not in first and _plain(row)
        first |= {row.setting} if default else set()
        marked.append(Row(row.workload, row.setting, default, row.found, row.units, row.seconds, row.total))
    return marked


def _plain(row: Row) -> bool:
    """Whether the framework is the one that is there without a choice."""
    return not any(name in row.found for name in ("runs:jax", "runs:onnxruntime")) or row.found.get("runs:keras") == 1.0


def _row(record: Measurement, found: Features) -> Row:
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
            compiling = [max((run.first or 0.0) - one, 0.0) for run, one in zip(phased, later, strict=True)]
            seconds["compile"] = statistics.median(compiling)
        else:
            seconds["steady"] = total / units
    return Row(str(record.workload.model), "|".join(parts), False, found, units, seconds, total)


def fit(records: Sequence[Measurement | Ratio], version: str, catalogue: Catalogue) -> Fit:
    """Return the model that ``records``, of this ``version``, give; InputError when they are too few."""
    rows = rows_of(records, catalogue)
    workloads = sorted({row.workload for row in rows})
    if len(workloads) < 3:
        raise InputError(
            f"a time model needs measurements of at least three workloads of known size, and there are {len(workloads)}"
        )
    phases: dict[Phase, PhaseModel] = {}
    contents: dict[Phase, bytes] = {}
    kinds: dict[Phase, tuple[Kind, float]] = {}
    for phase in PHASES:
        having = [row for row in rows if phase in row.seconds]
        if len({row.workload for row in having}) < 3:
            continue
        kind, alpha, error, other = _choose(having, phase)
        kinds[phase] = (kind, alpha)
        names = _names(having)
        fitted = _fitted(having, phase, names, kind, alpha)
        contents[phase] = _onnx(fitted, len(names))
        phases[phase] = PhaseModel(
            kind=kind,
            features=names,
            ranges={name: _range(having, name) for name in names},
            sha256=hashlib.sha256(contents[phase]).hexdigest(),
            records=len(having),
            error=error,
            error_other=other,
        )
    held, absolute, relative = _held_out(rows, kinds)
    description = Description(
        features_version=VERSION,
        data=version,
        catalogue=catalogue.version,
        phases=phases,
        level=LEVEL,
        half_width=quantile(absolute, LEVEL),
        half_width_ratio=quantile(relative, LEVEL),
        held=held,
    )
    return Fit(description, contents)


def quantile(errors: Sequence[float], level: float) -> float:
    """Return the half width of the split-conformal interval: of n errors the ceil((n + 1) x level)-th smallest.

    With too few errors for the level it is the largest one.
    """
    if not errors:
        return 0.0
    ordered = sorted(abs(error) for error in errors)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1]


def _names(rows: Sequence[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.found})


def _range(rows: Sequence[Row], name: str) -> tuple[float, float]:
    values = [row.found.get(name, 0.0) for row in rows]
    return (min(values), max(values))


def _target(rows: Sequence[Row], phase: Phase) -> list[float]:
    return [math.log(row.seconds[phase] + FLOOR) for row in rows]


def _estimator(kind: Kind, alpha: float) -> Any:
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if kind == "ridge":
        return make_pipeline(StandardScaler(), Ridge(alpha=alpha))
    return GradientBoostingRegressor(n_estimators=100, max_depth=2, learning_rate=0.1, random_state=0)


def _fitted(rows: Sequence[Row], phase: Phase, names: Sequence[str], kind: Kind, alpha: float) -> Any:
    import numpy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = numpy.array([vector(row.found, names) for row in rows], dtype=numpy.float32)
        return _estimator(kind, alpha).fit(matrix, _target(rows, phase))


def _predicted(fitted: Any, rows: Sequence[Row], names: Sequence[str]) -> list[float]:
    import numpy

    matrix = numpy.array([vector(row.found, names) for row in rows], dtype=numpy.float32)
    return [float(value) for value in fitted.predict(matrix)]


def _errors(rows: Sequence[Row], phase: Phase, kind: Kind, alpha: float) -> list[float]:
    """Return the errors of the logarithm, each workload predicted from all others."""
    errors: list[float] = []
    for workload in sorted({row.workload for row in rows}):
        training = [row for row in rows if row.workload != workload]
        testing = [row for row in rows if row.workload == workload]
        names = _names(training)
        fitted = _fitted(training, phase, names, kind, alpha)
        predicted = _predicted(fitted, testing, names)
        errors += [p - t for p, t in zip(predicted, _target(testing, phase), strict=True)]
    return errors


def _choose(rows: Sequence[Row], phase: Phase) -> tuple[Kind, float, float, float]:
    """Return kind, strength of the penalty, its error and that of the other kind."""

    def mean(kind: Kind, alpha: float) -> float:
        return statistics.fmean(abs(error) for error in _errors(rows, phase, kind, alpha))

    alpha = min(_ALPHAS, key=lambda a: mean("ridge", a))
    linear, richer = mean("ridge", alpha), mean("boosting", alpha)
    if richer < _MARGIN * linear:
        return "boosting", alpha, richer, linear
    return "ridge", alpha, linear, richer


def _onnx(fitted: Any, width: int) -> bytes:
    import numpy
    from skl2onnx import to_onnx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = to_onnx(fitted, numpy.zeros((1, width), dtype=numpy.float32), target_opset=17)
    content: bytes = graph.SerializeToString()
    return content


def _held_out(
    rows: Sequence[Row], kinds: dict[Phase, tuple[Kind, float]]
) -> tuple[list[Held], list[float], list[float]]:
    """Return the evaluation by workload, the errors of log time, and the errors of log ratio."""
    totals: dict[str, list[tuple[Row, float]]] = {}
    for workload in sorted({row.workload for row in rows}):
        training = [row for row in rows if row.workload != workload]
        testing = [row for row in rows if row.workload == workload]
        totals[workload] = list(zip(testing, _totals(training, testing, kinds), strict=True))
    absolute = {w: [math.log(p / row.total) for row, p in pairs] for w, pairs in totals.items()}
    relative = {w: _ratio_errors(pairs) for w, pairs in totals.items()}
    held = []
    for workload, pairs in totals.items():
        others = [error for name, errors in absolute.items() if name != workload for error in errors]
        width = quantile(others, LEVEL) if len(others) >= math.ceil(LEVEL / (1 - LEVEL)) else None
        inside = None if width is None else [abs(error) <= width for error in absolute[workload]]
        held.append(
            Held(
                workload=workload,
                records=len(pairs),
                error=statistics.fmean(abs(p / row.total - 1) for row, p in pairs),
                coverage=None if inside is None else sum(inside) / len(inside),
                regret=_regret(pairs, lambda pair: pair[1]),
                regret_default=_regret(pairs, lambda pair: 0.0 if pair[0].default else 1.0),
            )
        )
    return (
        held,
        [e for errors in absolute.values() for e in errors],
        [e for errors in relative.values() for e in errors],
    )


def _totals(training: Sequence[Row], testing: Sequence[Row], kinds: dict[Phase, tuple[Kind, float]]) -> list[float]:
    sums = [0.0] * len(testing)
    for phase, (kind, alpha) in kinds.items():
        having = [row for row in training if phase in row.seconds]
        names = _names(having)
        predicted = _predicted(_fitted(having, phase, names, kind, alpha), testing, names)
        for number, (row, value) in enumerate(zip(testing, predicted, strict=True)):
            if phase in row.seconds:
                seconds = max(0.0, math.exp(value) - FLOOR)
                sums[number] += seconds * (row.units if phase == "steady" else 1)
    return [max(total, FLOOR) for total in sums]


def _ratio_errors(pairs: Sequence[tuple[Row, float]]) -> list[float]:
    """Errors of log (default / configuration), within each setting."""
    errors = []
    for setting in {row.setting for row, _ in pairs}:
        inside = [(row, p) for row, p in pairs if row.setting == setting]
        base = next(((row, p) for row, p in inside if row.default), None)
        if base is not None:
            errors += [math.log((base[1] / p) / (base[0].total / row.total)) for row, p in inside if row is not base[0]]
    return errors


def _regret(pairs: Sequence[tuple[Row, float]], score: Any) -> float | None:
    """Return the mean over settings of time of the lowest score over the least time, less 1."""
    regrets = []
    for setting in sorted({row.setting for row, _ in pairs}):
        inside = [(row, p) for row, p in pairs if row.setting == setting]
        if len(inside) > 1 and any(row.default for row, _ in inside):
            chosen = min(inside, key=score)[0]
            regrets.append(chosen.total / min(row.total for row, _ in inside) - 1)
    return statistics.fmean(regrets) if regrets else None
