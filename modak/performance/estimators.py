"""The two kinds of estimator of the time model: linear in log time, and boosted trees.

The linear one is fitted in two steps. What levers, compilers and engines bring is learned within settings, as
differences from a setting's mean: what one workload or machine has in common with itself cannot blur it. What workload
and hardware bring is then learned between the settings, from what the first step leaves. Both are ridge regressions on
standardised features, and their sum is one linear function (Mundlak, "On the pooling of time series and cross section
data", Econometrica 46, 1978).
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from modak.performance.features import Features, vector
from modak.performance.timemodel import FLOOR, Phase

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
    """Median seconds of each phase that was told apart; of one unit for the steady one."""
    total: float
    """Median seconds of the whole run."""

    def at(self, units: int) -> float:
        """Return the seconds of a run of ``units``, by the measured phases where it is another length."""
        if units == self.units:
            return self.total
        return self.seconds.get("start", 0.0) + self.seconds.get("compile", 0.0) + units * self.seconds["steady"]


@dataclass(frozen=True)
class Strength:
    """Penalties of the linear estimator."""

    within: float = 1.0
    between: float = 1.0


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
    return sorted({name for row in rows for name in row.found})


def target(row: Row, phase: Phase) -> float:
    """Return the logarithm that is learned."""
    return math.log(row.seconds[phase] + FLOOR)


def fitted(rows: Sequence[Row], phase: Phase, kind: Kind, strength: Strength) -> Estimator:
    """Return an estimator of ``kind`` for a phase that all ``rows`` have."""
    names = names_of(rows)
    if kind == "ridge":
        return _Fitted(_linear(rows, phase, names, strength), names)
    from sklearn.ensemble import GradientBoostingRegressor

    boosting = GradientBoostingRegressor(n_estimators=100, max_depth=2, learning_rate=0.1, random_state=0)
    return _Fitted(
        boosting.fit(_matrix([row.found for row in rows], names), [target(row, phase) for row in rows]), names
    )


def _matrix(rows: Sequence[Features], names: Sequence[str]) -> Array:
    import numpy

    return numpy.array([vector(found, names) for found in rows], dtype=numpy.float32)


def _linear(rows: Sequence[Row], phase: Phase, names: Sequence[str], strength: Strength) -> Any:
    import numpy
    from sklearn.linear_model import LinearRegression

    x = _matrix([row.found for row in rows], names).astype(numpy.float64)
    y = numpy.array([target(row, phase) for row in rows])
    settings = sorted({row.setting for row in rows})
    member = numpy.array([settings.index(row.setting) for row in rows])
    x_mean = numpy.array([x[member == number].mean(axis=0) for number in range(len(settings))])
    y_mean = numpy.array([y[member == number].mean() for number in range(len(settings))])
    varying = (x - x_mean[member]).std(axis=0) > 1e-9
    coefficients = _ridge(x - x_mean[member], y - y_mean[member], varying, strength.within)
    left = y_mean - x_mean @ coefficients
    centre = x_mean.mean(axis=0)
    coefficients += _ridge(x_mean - centre, left - left.mean(), ~varying, strength.between)
    regressor = LinearRegression()
    regressor.coef_ = coefficients
    regressor.intercept_ = float((y_mean - x_mean @ coefficients).mean())
    regressor.n_features_in_ = len(names)
    return regressor


def _ridge(x: Array, y: Array, columns: Array, penalty: float) -> Array:
    """Return the coefficients of centred ``x`` on centred ``y``; only ``columns`` take part, the others get zero."""
    import numpy

    spread = x.std(axis=0)
    used = columns & (spread > 1e-9)
    found = numpy.zeros(x.shape[1])
    if used.any():
        z = x[:, used] / spread[used]
        found[used] = numpy.linalg.solve(z.T @ z + penalty * numpy.eye(z.shape[1]), z.T @ y) / spread[used]
    return found
