"""The two kinds of estimator of the time model: linear in log time, and boosted trees.

The linear one is fitted in three steps, each to what the one before leaves. What levers bring is learned from runs of
the same work on the same hardware by the same engine and compiler; what engines and compilers bring, from runs without
further levers beside the default's; what workload and hardware bring, from the defaults. So nothing is blamed for what
it only stands beside, and what little is known of is taken to bring little. Each step is a ridge regression on scaled
features, and their sum is one linear function (within and between effects after Mundlak, "On the pooling of time series
and cross section data", Econometrica 46, 1978).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from modak_deploy.performance.features import Case, Features, names_in, vector
from modak_deploy.performance.timemodel import Phase, logarithm_of

Kind = Literal["ridge", "boosting"]
Array = Any
"""numpy arrays; scikit-learn has no types."""


@dataclass(frozen=True)
class Row:
    """One record as the model sees it."""

    workload: str
    case: Case
    setting: str
    """Records of one setting compare configurations of the same work on the same hardware."""
    default: bool
    inputs: Features
    units: int
    seconds: dict[Phase, float]
    """Median seconds of each phase that was told apart; of one unit for the steady one."""
    total: float
    """Median seconds of the whole run."""

    @cached_property
    def on(self) -> frozenset[str]:
        """What is on in its configuration: levers, compilers, the engine."""
        return names_in(self.inputs)

    @cached_property
    def engine(self) -> tuple[str, ...]:
        """Setting, engine and compiler: within one of these only levers differ."""
        return (self.setting, *sorted(name for name in self.on if not name.startswith("lever:")))

    def at(self, units: int) -> float:
        """Return the seconds of a run of ``units``, by the measured phases where it is another length."""
        if units == self.units:
            return self.total
        return self.seconds.get("start", 0.0) + self.seconds.get("compile", 0.0) + units * self.seconds["steady"]


Part = Literal["levers", "compiler", "engine", "between"]
PARTS: tuple[Part, ...] = ("levers", "compiler", "engine", "between")
Strength = Mapping[Part, float]
"""Penalties of the linear estimator: of what levers, compilers and engines bring, and of what tells settings apart."""
_PREFIXES: Mapping[str, Part] = {"lever:": "levers", "compiler:": "compiler"}


class Estimator(Protocol):
    """Something fitted that predicts the logarithm of a phase's seconds."""

    def predict(self, rows: Sequence[Features]) -> list[float]:
        """Return one logarithm for each."""
        ...

    def onnx(self) -> bytes:
        """Return it as an ONNX file."""
        ...


class _Fitted:
    """A scikit-learn regressor over named features."""

    def __init__(self, regressor: Any, names: Sequence[str]) -> None:
        self._regressor = regressor
        self._names = names

    def predict(self, rows: Sequence[Features]) -> list[float]:
        """See ``Estimator``."""
        return [float(value) for value in self._regressor.predict(_matrix(rows, self._names))]

    def onnx(self) -> bytes:
        """See ``Estimator``."""
        import numpy
        from skl2onnx import to_onnx

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = numpy.zeros((1, len(self._names)), dtype=numpy.float32)
            graph = to_onnx(self._regressor, sample, target_opset=17)
        content: bytes = graph.SerializeToString()
        return content


def names_of(rows: Sequence[Row]) -> list[str]:
    """Return the features that any row has."""
    return sorted({name for row in rows for name in row.inputs})


def target(row: Row, phase: Phase) -> float:
    """Return the logarithm that is learned."""
    return logarithm_of(row.seconds[phase], phase)


def fitted(rows: Sequence[Row], phase: Phase, kind: Kind, strength: Strength) -> Estimator:
    """Return an estimator of ``kind`` for a phase that all ``rows`` have."""
    names = names_of(rows)
    if kind == "ridge":
        return _Fitted(_linear(rows, phase, names, strength), names)
    from sklearn.ensemble import GradientBoostingRegressor

    boosting = GradientBoostingRegressor(n_estimators=100, max_depth=2, learning_rate=0.1, random_state=0)
    return _Fitted(
        boosting.fit(_matrix([row.inputs for row in rows], names), [target(row, phase) for row in rows]), names
    )


def _matrix(rows: Sequence[Features], names: Sequence[str]) -> Array:
    import numpy

    return numpy.array([vector(inputs, names) for inputs in rows], dtype=numpy.float32)


def _linear(rows: Sequence[Row], phase: Phase, names: Sequence[str], strength: Strength) -> Any:
    import numpy
    from sklearn.linear_model import LinearRegression

    x = _matrix([row.inputs for row in rows], names).astype(numpy.float64)
    y = numpy.array([target(row, phase) for row in rows])
    penalties = numpy.array([strength[_part(name)] for name in names])
    coefficients = numpy.zeros(len(names))
    learned = numpy.zeros(len(names), dtype=bool)
    units = list(range(len(rows)))
    for level in (_engine_of, _setting_of):
        base = _bases(rows, units, level)
        apart = x[units] - x[[base[level(rows[unit])] for unit in units]]
        left = y - x @ coefficients
        columns = (numpy.abs(apart).max(axis=0) > 1e-9) & ~learned
        bases = [base[level(rows[unit])] for unit in units]
        coefficients += _ridge(apart, left[units] - left[bases], columns, penalties)
        learned |= columns
        units = sorted(set(bases))
    left = (y - x @ coefficients)[units]
    centre = x[units].mean(axis=0)
    coefficients += _ridge(x[units] - centre, left - left.mean(), ~learned, 0.0 * penalties + strength["between"])
    regressor = LinearRegression()
    regressor.coef_ = coefficients
    regressor.intercept_ = float((y - x @ coefficients)[units].mean())
    regressor.n_features_in_ = len(names)
    return regressor


def _engine_of(row: Row) -> tuple[str, ...]:
    return row.engine


def _setting_of(row: Row) -> tuple[str, ...]:
    return (row.setting,)


def _bases(
    rows: Sequence[Row], units: Sequence[int], level: Callable[[Row], tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """Return the row that the others of its group are compared with: the default, or that with the fewest levers."""
    first_units: dict[tuple[str, ...], int] = {}
    for unit in sorted(units, key=lambda number: (not rows[number].default, len(rows[number].on))):
        first_units.setdefault(level(rows[unit]), unit)
    return first_units


def _part(name: str) -> Part:
    return next((part for prefix, part in _PREFIXES.items() if name.startswith(prefix)), "engine")


def _ridge(x: Array, y: Array, columns: Array, penalties: Array) -> Array:
    """Return the coefficients of ``x`` on ``y`` without an intercept; only ``columns`` take part, others get zero."""
    import numpy

    spread = numpy.sqrt((x**2).mean(axis=0))
    used = columns & (spread > 1e-9)
    weights = numpy.zeros(x.shape[1])
    if used.any():
        z = x[:, used] / spread[used]
        weights[used] = numpy.linalg.solve(z.T @ z + numpy.diag(penalties[used]), z.T @ y) / spread[used]
    return weights
