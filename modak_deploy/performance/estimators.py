"""The two kinds of estimator of the time model: linear in log time, and boosted trees.

The linear one is fitted in three steps, each to what the one before leaves. What levers bring is learned from runs of
the same work on the same hardware by the same engine and compiler; what engines and compilers bring, from runs without
further levers beside the default's; what workload and hardware bring, from the defaults. So nothing is blamed for what
it only stands beside, and what little is known of is taken to bring little. Each step is a ridge regression on scaled
features, and their sum is one linear function (within and between effects after Mundlak, "On the pooling of time series
and cross section data", Econometrica 46, 1978).
"""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from modak_deploy.performance.features import FAR, LEVERS, Case, Features, names_in, of_phase, unknown, vector
from modak_deploy.performance.timemodel import Phase, logarithm_of, within

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
    units_alone: bool = False
    """Nothing is known but the steady units, as of published latencies, or of runs without a total."""
    turns: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Seconds of single units that were done in turns with others, by the start of their process and the turn."""
    published: bool = False
    """It is a publication's, of software and circumstances that it does not tell."""

    @cached_property
    def on(self) -> frozenset[str]:
        """What is on in its configuration: levers, compilers, the engine."""
        return names_in(self.inputs)

    @cached_property
    def engine(self) -> tuple[str, ...]:
        """Setting, engine and compiler: within one of these only levers differ."""
        return (self.setting, *sorted(name for name in self.on if not name.startswith(LEVERS)))

    def at(self, units: int) -> float:
        """Return the seconds of a run of ``units``, by the measured phases where it is another length."""
        if units == self.units:
            return self.total
        return self.seconds.get("start", 0.0) + self.seconds.get("compile", 0.0) + units * self.seconds["steady"]


Part = Literal["levers", "compiler", "engine", "between"]
PARTS: tuple[Part, ...] = ("levers", "compiler", "engine", "between")
Strength = Mapping[Part, float]
"""Penalties of the linear estimator: of what levers, compilers and engines bring, and of what tells settings apart."""
_PREFIXES: Mapping[str, Part] = {**dict.fromkeys(LEVERS, "levers"), "compiler:": "compiler"}


class Estimator(Protocol):
    """Something fitted that predicts the logarithm of a phase's seconds."""

    def predict(self, rows: Sequence[Features]) -> list[float]:
        """Return one logarithm for each."""
        ...

    def onnx(self) -> bytes:
        """Return it as an ONNX file."""
        ...


class _Fitted:
    """A scikit-learn regressor over named features.

    ``predicted`` gives the logarithms of a matrix, by a product where its own ``predict`` checks its input for longer.
    """

    def __init__(self, regressor: Any, predicted: Callable[[Array], Array], learned: "Learning") -> None:
        self._regressor, self._predicted = regressor, predicted
        self._names, self._limits = learned.names, learned.limits

    def predict(self, rows: Sequence[Features]) -> list[float]:
        """See ``Estimator``."""
        inputs = _matrix(rows, self._names)
        return [within(float(value), self._limits) for value in self._predicted(inputs)]

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


def target(row: Row, phase: Phase) -> float:
    """Return the logarithm that is learned."""
    return logarithm_of(row.seconds[phase], phase)


@dataclass(frozen=True)
class _Step:
    """A ridge regression whose inputs are known, and not yet what is left to learn, nor its penalties."""

    units: list[int]
    bases: list[int] | None
    """The rows that the others are compared with; None where all are compared with their mean."""
    used: Array
    spread: Array
    scaled: Array
    products: Array
    """Of its scaled features with each other: the same for all penalties."""

    def coefficients(self, left: Array, penalties: Array) -> Array:
        """Return the coefficients for what the steps before leave of each row; zero for features that it is not for."""
        import numpy

        weights = numpy.zeros(len(self.used))
        if self.used.any():
            y = left[self.units] - (left[self.units].mean() if self.bases is None else left[self.bases])
            solution = numpy.linalg.solve(self.products + numpy.diag(penalties[self.used]), self.scaled.T @ y)
            weights[self.used] = solution / self.spread[self.used]
        return weights


@dataclass(frozen=True)
class Sheet:
    """Rows that all have a phase, and their features as one matrix, from which those of some of them are taken."""

    rows: Sequence[Row]
    phase: Phase

    @classmethod
    def of(cls, rows: Sequence[Row], phase: Phase) -> "Sheet":
        """Return the sheet of those with the phase, by what it may depend on."""
        return cls([replace(row, inputs=of_phase(row.inputs, phase)) for row in rows if phase in row.seconds], phase)

    @cached_property
    def names(self) -> list[str]:
        """The features that any row has."""
        return sorted({name for row in self.rows for name in row.inputs})

    @cached_property
    def values(self) -> Array:
        """A row for each row and a column for each name."""
        import numpy

        return numpy.array([vector(row.inputs, self.names) for row in self.rows], dtype=numpy.float64)

    @cached_property
    def present(self) -> Array:
        """Which row has which feature, be it 0."""
        import numpy

        return numpy.array([[name in row.inputs for name in self.names] for row in self.rows], dtype=bool)

    @cached_property
    def targets(self) -> Array:
        """The logarithms that are learned."""
        import numpy

        return numpy.array([target(row, self.phase) for row in self.rows])

    @cached_property
    def needed(self) -> list[dict[str, int]]:
        """How many workloads must have been measured with each thing that is on in a row.

        Another one than its own tells of a lever. Two more tell of an engine or a compiler that is chosen, whose gains
        depend on what the work consists of: by two networks JAX was said to be twice as fast for four others, which
        took up to three times as long with it.
        """
        usual = {row.setting: row.on for row in self.rows if row.default}
        return [
            {name: 2 if name in usual.get(row.setting, ()) or _part(name) == "levers" else 3 for name in row.on}
            for row in self.rows
        ]

    def whole(self) -> "Learning":
        """Return all rows, whatever is on."""
        return Learning(self, range(len(self.rows)))


@dataclass(frozen=True)
class Learning:
    """Some rows of a sheet, prepared once for the fits that are tried on them."""

    sheet: Sheet
    numbers: Sequence[int]

    def without(self, workloads: Collection[str]) -> "Learning":
        """Return the rows of other workloads in which nothing is on that too few of these were measured with.

        What such a thing brings is tested by nothing.
        """
        rows, needed = self.sheet.rows, self.sheet.needed
        numbers = [number for number in self.numbers if rows[number].workload not in workloads]
        having: dict[str, set[str]] = {}
        for number in numbers:
            for name in rows[number].on:
                having.setdefault(name, set()).add(rows[number].workload)
        counts = {name: len(measured) for name, measured in having.items()}
        enough = (n for n in numbers if all(counts[name] >= least for name, least in needed[n].items()))
        return Learning(self.sheet, list(enough))

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The rows themselves."""
        return [self.sheet.rows[number] for number in self.numbers]

    @cached_property
    def _columns(self) -> list[int]:
        present = self.sheet.present[list(self.numbers)].any(axis=0)
        return [int(column) for column in present.nonzero()[0]]

    @cached_property
    def _values(self) -> Array:
        return self.sheet.values[list(self.numbers)][:, self._columns]

    @cached_property
    def names(self) -> list[str]:
        """The features that any row has."""
        return [self.sheet.names[column] for column in self._columns]

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Between what values each feature lies."""
        lowest, highest = self._values.min(axis=0), self._values.max(axis=0)
        return {name: (float(low), float(high)) for name, low, high in zip(self.names, lowest, highest, strict=True)}

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Between what logarithms a prediction lies: as far outside of what was learned as the features may be."""
        return float(self._y.min()) - FAR, float(self._y.max()) + FAR

    @cached_property
    def together(self) -> list[tuple[str, ...]]:
        """What is on at once in any row."""
        return sorted({tuple(sorted(row.on)) for row in self.rows})

    def refuses(self, row: Row) -> bool:
        """Tell whether nothing that is fitted to these rows can tell of another one."""
        return unknown(of_phase(row.inputs, self.sheet.phase), self.ranges, self.together) is not None

    def fitted(self, kind: Kind, strength: Strength) -> Estimator:
        """Return an estimator of ``kind``."""
        if kind == "ridge":
            linear = self._linear(strength)
            return _Fitted(linear, lambda inputs: inputs @ linear.coef_ + linear.intercept_, self)
        from sklearn import config_context
        from sklearn.ensemble import GradientBoostingRegressor

        boosting = GradientBoostingRegressor(n_estimators=100, max_depth=2, learning_rate=0.1, random_state=0)
        with config_context(assume_finite=True, skip_parameter_validation=True):  # for each tree: a third of its time
            return _Fitted(boosting.fit(self._x, self._y), boosting.predict, self)

    @cached_property
    def _x(self) -> Array:
        import numpy

        return self._values.astype(numpy.float32)

    @cached_property
    def _precise(self) -> Array:
        """The same numbers, for sums and products of many."""
        return self._x.astype("float64")

    @cached_property
    def _y(self) -> Array:
        return self.sheet.targets[list(self.numbers)]

    @cached_property
    def _steps(self) -> list[_Step]:
        """Levers, then compilers and engines, then workload and hardware; each takes what those before do not."""
        import numpy

        x = self._precise
        learned = numpy.zeros(x.shape[1], dtype=bool)
        units = list(range(len(self.rows)))
        steps: list[_Step] = []
        for level in (_engine_of, _setting_of):
            base = _bases(self.rows, units, level)
            bases = [base[level(self.rows[unit])] for unit in units]
            apart = x[units] - x[bases]
            columns = (numpy.abs(apart).max(axis=0) > 1e-9) & ~learned
            steps.append(_step(units, bases, apart, columns))
            learned |= columns
            units = sorted(set(bases))
        return [*steps, _step(units, None, x[units] - x[units].mean(axis=0), ~learned)]

    def _linear(self, strength: Strength) -> Any:
        import numpy
        from sklearn.linear_model import LinearRegression

        x, y = self._precise, self._y
        penalties = numpy.array([strength[_part(name)] for name in self.names])
        between = numpy.full(len(self.names), strength["between"])
        coefficients = numpy.zeros(len(self.names))
        for step in self._steps:
            left = y - x @ coefficients
            coefficients += step.coefficients(left, between if step.bases is None else penalties)
        units = self._steps[-1].units
        regressor = LinearRegression()
        regressor.coef_ = coefficients
        regressor.intercept_ = float((y - x @ coefficients)[units].mean())
        regressor.n_features_in_ = len(self.names)
        return regressor


def _step(units: list[int], bases: list[int] | None, apart: Array, columns: Array) -> _Step:
    """Return a ridge regression without an intercept on scaled features; only ``columns`` take part."""
    import numpy

    spread = numpy.sqrt((apart**2).mean(axis=0))
    used = columns & (spread > 1e-9)
    scaled = apart[:, used] / spread[used]
    return _Step(units, bases, used, spread, scaled, scaled.T @ scaled)


def _matrix(rows: Sequence[Features], names: Sequence[str]) -> Array:
    import numpy

    return numpy.array([vector(inputs, names) for inputs in rows], dtype=numpy.float32)


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
