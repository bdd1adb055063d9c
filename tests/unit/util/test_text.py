import pytest

from modak_deploy.util.text import close_match, either, nearest, plural, significant


@pytest.mark.parametrize(
    ("name", "close"),
    [("slrum", "slurm"), ("SLURM", "slurm"), ("gpu", "GPU-long"), ("grid", "gridengine"), ("zz", None), ("", None)],
)
def test_close_match(name: str, close: str | None) -> None:
    assert close_match(name, ["slurm", "gridengine", "GPU-long"]) == close


def test_hint_is_empty_where_nothing_is_close() -> None:
    assert nearest("slrum", ["slurm"]) == "; did you mean 'slurm'?"
    assert nearest("zz", ["slurm"]) == ""


@pytest.mark.parametrize(
    ("number", "noun", "text"), [(1, "core", "1 core"), (0, "core", "0 cores"), (2, "batch", "2 batches")]
)
def test_plural(number: int, noun: str, text: str) -> None:
    assert plural(number, noun) == text


def test_either() -> None:
    assert [either(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.4, 3, "1230"), (999.7, 3, "1000"), (12345.6, 4, "12350"), (1.25, 3, "1.25"), (0.00001234, 3, "0.0000123"),
        (0.0, 3, "0"), (-2000.0, 2, "-2000"), (1.7e308, 3, "1.7e+308"), (5e-324, 3, "4.94e-324"),
        (float("inf"), 3, "inf"),
    ],
)  # fmt: skip
def test_significant_digits_have_no_exponent_that_a_reader_meets(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text
