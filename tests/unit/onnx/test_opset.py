"""The highest opset of a target's ONNX Runtime: its own where that is known, and no later one where it is not."""

import pytest

from modak_deploy.errors import InputError
from modak_deploy.onnx import opset


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opset, "installed_highest", lambda: 28)
    monkeypatch.setattr(opset, "_installed_release", lambda: (1, 32))


@pytest.mark.parametrize(
    ("runtime", "highest"), [(None, 28), ("1.20", 21), ("1.24", 23), ("1.31.1", 23), ("1.32", 28), ("2.0", 28)]
)
def test_a_release_that_is_not_listed_may_have_less_than_the_installed_one(runtime: str | None, highest: int) -> None:
    assert opset.highest(runtime) == highest


def test_a_release_that_is_too_old_is_refused() -> None:
    with pytest.raises(InputError, match=r"1\.14 is the oldest"):
        opset.highest("1.13")
