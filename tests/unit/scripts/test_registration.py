"""scripts/registration.py: the built-in extensions are those whose classes are there."""

import importlib.util
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("registration", TOP / "scripts" / "registration.py")
assert _SPEC is not None
assert _SPEC.loader is not None
registration = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(registration)


def test_both_files_are_current() -> None:
    for path, text in registration.written().items():
        assert path.read_text() == text, f"{path.name}: run 'make generate'"


def test_rows_are_replaced_below_their_head() -> None:
    text = 'A: m = {\n    "old": "x:Y",\n}\nB: m = {\n}\n'
    assert registration.replaced(text, r"(?m)^(B: .* = {\n)(?:    .*\n)*", '    "new": "z:Z",\n') == (
        'A: m = {\n    "old": "x:Y",\n}\nB: m = {\n    "new": "z:Z",\n}\n'
    )


def test_a_head_that_is_not_found() -> None:
    with pytest.raises(SystemExit, match="0 times"):
        registration.replaced("", "(x)", "")
