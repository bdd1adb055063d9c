"""Fixtures of what is no part of the library: benchmarks are imported as scripts import one another."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch):
    """Return the function that imports a benchmark anew, with those of its neighbours that are named."""

    def imported(name, *neighbours):
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        for module in (name, *neighbours):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name)

    return imported
