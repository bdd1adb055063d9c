"""Differences of outputs: tolerance by type, NaN, shapes, the largest value; and of distributions."""

import numpy as np
import pytest

from modak_deploy.onnx.arrays import Arrays
from modak_deploy.onnx.compare import close, compare
from modak_deploy.onnx.distributions import compare_distributions, power


@pytest.mark.parametrize(
    ("dtype", "gap", "passed"),
    [("float32", 5e-5, True), ("float32", 5e-4, False), ("float16", 5e-3, True), ("float64", 1e-6, False)],
)
def test_tolerance_is_of_the_type(dtype: str, gap: float, passed: bool) -> None:
    a = np.array([[1, 1, 1], [-1, 2, 3]], dtype)
    (found,) = compare({"y": a}, {"y": (a + gap).astype(dtype)})
    assert found.passed is passed
    assert found.max_absolute == pytest.approx(gap, rel=0.2)


def test_given_tolerance_wins() -> None:
    a = np.ones(3, "float32")
    assert compare({"y": a}, {"y": a + np.float32(0.05)}, {"float32": [0.1, 0.0]})[0].passed


def test_a_value_near_zero_has_the_rounding_errors_of_the_others() -> None:
    a = np.array([[6.5, -4.0, 5.0], [1e-3, 6.0, -7.0]], "float32")
    other = a.copy()
    other[1, 0] += np.float32(3e-5)
    assert compare({"y": a}, {"y": other})[0].passed
    assert not compare({"y": a}, {"y": other}, {"float32": [1e-5, 1e-4]})[0].passed, "what is given applies as it is"


def test_a_score_beside_coordinates_is_compared_by_its_own_size() -> None:
    a = np.array([[600.0, 480.0, 0.5], [100.0, 30.0, 0.01]], "float32")
    other = a.copy()
    other[1, 2] += np.float32(1e-4)
    assert not compare({"y": a}, {"y": other})[0].passed


FLOAT_MIN = float(np.finfo("float32").min)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        pytest.param([[1e6], [1], [2], [3]], [[1e6], [-10], [30], [40]], id="one large sample of a regression"),
        pytest.param([1e6, 1, 2, 3], [1e6, -10, 30, 40], id="one large value"),
        pytest.param(
            [[5, -1e9, 3], [-1e9, 2, 4], [1, 2, -1e9]], [[0, -1e9, 0], [-1e9, 0, 0], [0, 0, -1e9]], id="masks"
        ),
        pytest.param([[5, -1e9, 3, -1e9], [2, -1e9, 4, -1e9]], [[0, -1e9, 0, -1e9], [0, -1e9, 0, -1e9]], id="padding"),
        pytest.param([[FLOAT_MIN, 1.0], [FLOAT_MIN, 3.0]], [[FLOAT_MIN, 5.0], [FLOAT_MIN, 7.0]], id="least value"),
        pytest.param([[-np.inf, 1.0], [3.0, -np.inf]], [[-np.inf, 1.1], [3.1, -np.inf]], id="infinite masks"),
        pytest.param([[*[300] * 7, *[250] * 7, 4e-3]] * 3, [[*[300] * 7, *[250] * 7, 0]] * 3, id="a lost score"),
    ],
)
def test_large_values_do_not_excuse_small_ones(expected: list[list[float]], actual: list[list[float]]) -> None:
    a, b = (np.array(values, "float32") for values in (expected, actual))
    assert not compare({"y": a}, {"y": b})[0].passed


def test_padding_does_not_forbid_rounding_errors() -> None:
    a = np.zeros((3, 20), "float32")
    a[:, :10] = np.random.default_rng(2).normal(0, 6, size=(3, 10))
    a[1, 3] = 1e-3
    other = a.copy()
    other[1, 3] += np.float32(1e-5)
    assert compare({"y": a}, {"y": other})[0].passed


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0,)])
def test_an_empty_output_passes_with_a_warning(shape: tuple[int, ...]) -> None:
    (found,) = compare({"y": np.zeros(shape, "float32")}, {"y": np.zeros(shape, "float32")})
    assert found.passed
    assert "nothing was compared" in str(found.warning)


def test_nan_must_be_at_the_same_places() -> None:
    a = np.array([1.0, np.nan], "float32")
    assert compare({"y": a}, {"y": a})[0].passed
    found = compare({"y": a}, {"y": np.array([np.nan, 1.0], "float32")})[0]
    assert not found.passed
    assert (found.nan_original, found.nan_converted) == (1, 1)


def test_infinity_is_equal_to_itself_alone() -> None:
    a = np.array([np.inf, 1.0], "float32")
    assert compare({"y": a}, {"y": a})[0].passed
    assert not compare({"y": a}, {"y": -a})[0].passed


def test_outputs_that_hardly_differ_between_samples_are_compared_by_what_they_differ_by() -> None:
    faded = np.float32(0.5) + np.linspace(0, 1e-4, 8, dtype="float32").reshape(8, 1)
    other = faded + np.float32(8e-6)  # within the tolerance of the type
    assert not compare({"y": faded}, {"y": other})[0].passed
    assert compare({"y": faded}, {"y": faded + np.float32(1e-7)})[0].passed
    constant = np.full((4, 1), 0.5, "float32")
    assert "the comparison says little" in str(compare({"y": constant}, {"y": constant})[0].warning)


def test_labels_are_exact_and_top1_is_counted() -> None:
    found = compare({"label": np.array([0, 1, 2, 2])}, {"label": np.array([0, 1, 2, 1])})[0]
    assert not found.passed
    assert found.top1_agreement == 0.75
    scores = np.array([[0.1, 0.9], [0.6, 0.4]], "float32")
    assert compare({"y": scores}, {"y": scores[:, ::-1]})[0].top1_agreement == 0.0


def test_missing_outputs_and_other_shapes_do_not_pass() -> None:
    a = np.ones((2, 3), "float32")
    assert not compare({"y": a}, {})[0].passed
    assert "in place of [2, 3]" in str(compare({"y": a}, {"y": np.ones((3, 2), "float32")})[0].problem)
    assert compare({"y": np.ones(2, "float32")}, {"y": np.ones((2, 1), "float32")})[0].passed


def test_what_stays_the_same_is_compared_by_position() -> None:
    right, wrong = (np.array([[600, 480, 0.5], [100, 30, score]], "float32") for score in (0.01, 0.03))
    (found,) = compare_distributions(lambda _: {"y": right}, lambda _: {"y": wrong}, {"x": np.zeros((2, 4))})
    assert not found["passed"]


@pytest.mark.parametrize(("shift", "passed"), [(0.0, True), (1.0, False)])
def test_distributions(shift: float, passed: bool) -> None:
    generator = np.random.default_rng(3)
    inputs: Arrays = {"x": np.zeros((2, 4))}
    (found,) = compare_distributions(
        lambda x: {"y": generator.standard_normal((2, 4))},
        lambda x: {"y": generator.standard_normal((2, 4)) + shift},
        inputs,
    )
    assert found["passed"] is passed
    assert 0.5 < found["power"] <= 1.0


def test_frozen_randomness_is_seen() -> None:
    generator = np.random.default_rng(3)
    (found,) = compare_distributions(
        lambda x: {"y": generator.standard_normal((1, 2))}, lambda x: {"y": np.zeros((1, 2))}, {"x": np.zeros((1, 1))}
    )
    assert not found["passed"]


def test_power_falls_with_the_number_of_elements() -> None:
    assert power(1) >= power(64) > 0.5


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_stochastic_model_that_gives_no_numbers_is_seen(wrong: float) -> None:
    generator = np.random.default_rng(3)
    (entry,) = compare_distributions(
        lambda x: {"y": generator.standard_normal((2, 4))},
        lambda x: {"y": np.full((2, 4), wrong)},
        {"x": np.zeros((2, 4))},
    )
    assert not entry["passed"]


def test_numbers_that_are_sometimes_nan_are_compared_as_such() -> None:
    generator = np.random.default_rng(3)

    def draw(share: float) -> Arrays:
        values = generator.standard_normal((1, 3))
        return {"y": np.where(generator.random((1, 3)) < share, np.nan, values)}

    for share, passed in ((0.3, True), (0.9, False)):
        (entry,) = compare_distributions(lambda x: draw(0.3), lambda x, s=share: draw(s), {"x": np.zeros((1, 1))})
        assert entry["passed"] is passed
        assert entry["nan_original"] > 0


@pytest.mark.parametrize(("wrong", "passed"), [(1.0, True), (1.0 + 1e-6, True), (2.0, False), (np.nan, False)])
def test_what_never_varies_beside_what_does_is_compared_too(wrong: float, passed: bool) -> None:
    generator = np.random.default_rng(3)

    def draw(constant: float) -> Arrays:
        return {"y": np.append(generator.standard_normal(3), constant).astype("float32").reshape(1, 4)}

    (entry,) = compare_distributions(lambda x: draw(1.0), lambda x: draw(wrong), {"x": np.zeros((1, 1))})
    assert entry["passed"] is passed
    assert entry["p_value"] > 0.01


def test_results_are_close_by_the_largest_of_them() -> None:
    small = np.array([[0.001, 0.002], [0.001, np.nan]], "float32")
    assert close(small, small * np.float32(1.001), 1e-2)
    assert not close(small, small[:, ::-1], 1e-2)
    assert not close(small, np.full((2, 2), 0.0015, "float32"), 1e-2)
    assert close(np.array([1e5, 1e-3]), np.array([1e5, 5e-3]), 1e-2), "up to 0.01, as rounding next to large terms"
    assert not close(np.array([1, 2]), np.array([1, 3]), 1e-2)
    assert not close(small, small[:1], 1e-2)
