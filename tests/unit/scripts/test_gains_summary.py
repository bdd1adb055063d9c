"""``benchmarks/gains_summary.py``: means that stand beside each other are those of the same programs."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def line(kind: str, **gains: float) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, gain=lambda arm, minutes: (gains[arm], True) if arm in gains else None)


def test_means_are_of_programs_that_have_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two programs had no second job: a gain of 4 stood beside one of 2, which was that of both."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    summary = importlib.import_module("gains_summary")
    lines = [line("training", **{"live-exact": 4.0, "second-exact": 4.0})]
    lines += [line("training", **{"live-exact": 1.0}), line("other", **{"second-exact": 3.0}), line("inference")]
    monkeypatch.setattr(summary.survey_table, "read", lambda path: [])
    monkeypatch.setattr(summary.program_table, "lines_of", lambda entries: lines)
    monkeypatch.setattr(summary, "SOURCES", [summary.Source("x", "Zen", 5, "#x")])
    rows = [row for row in summary.table().splitlines() if row.startswith("| Zen")]
    assert rows == [
        "| Zen | [5 min](#x) | 1 of training | 4.00 | 4.00 | - | - |",
        "| Zen | [5 min](#x) | 1 others | - | 3.00 | - | - |",
    ]
