"""Fixtures of what jobs leave to learn from."""

import functools

import pytest

from tried_parts import recorded


@pytest.fixture
def records(tmp_path):
    """Return the function that makes the measurements of a job with these trials."""
    return functools.partial(recorded, tmp_path)
