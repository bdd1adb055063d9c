"""A few hundred mutated files of every kind; tests/fuzz/documents.py runs as many as wanted."""

import tempfile
from pathlib import Path

import documents
import pytest


@pytest.mark.parametrize("kind", sorted(documents.TAKE))
def test_mutated_files_are_accepted_rightly_or_rejected_with_one_message(kind: str) -> None:
    counts, findings = documents.run_all(20261122, 40, kind)
    assert [f"case {case.number}: {outcome.finding}" for case, outcome in findings] == []
    assert counts[kind, False] > 0


@pytest.mark.parametrize("kind", sorted(documents.TAKE))
def test_what_is_not_mutated_is_accepted(kind: str) -> None:
    """Otherwise the mutations would show nothing."""
    accepted = 0
    for name, text in documents.seeds()[kind]:
        with tempfile.TemporaryDirectory() as folder:
            outcome = documents.run(documents.Case(0, kind, name, text.encode()), Path(folder))
        assert outcome.finding is None
        accepted += outcome.accepted
    assert accepted


def test_the_same_seed_makes_the_same_cases() -> None:
    assert list(documents.cases(7, 20)) == list(documents.cases(7, 20))
    assert list(documents.cases(7, 20)) != list(documents.cases(8, 20))
