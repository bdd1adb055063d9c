import pytest

from modak_deploy.util.text import close_match, either, nearest, plural


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
