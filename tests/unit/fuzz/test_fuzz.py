"""Some cases of each kind of the fuzzer; ``make fuzz`` runs thousands."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "fuzz" / "run.py"


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("modak_fuzz_run", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()


@pytest.mark.parametrize("name", RUNNER.load())
def test_cases(name: str) -> None:
    cases = 20 if name == "honest tree" else 100
    assert RUNNER.run(name, RUNNER.load()[name], cases, seed=1) == []
