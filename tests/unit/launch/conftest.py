"""Fixtures for tests of the launcher with real frameworks."""

from typing import Any

import pytest

from launch_parts import Memory
from modak_deploy.launch import hardware
from modak_deploy.launch.config import Config, Trials
from modak_deploy.launch.frameworks.pytorch import bf16
from modak_deploy.launch.frameworks.pytorch.background import Background
from modak_deploy.launch.progress import Counters
from modak_deploy.launch.session import Session


@pytest.fixture(scope="session")
def torch() -> Any:
    module: Any = pytest.importorskip("torch", reason="PyTorch is not installed; 'pip install .[torch]' installs it")
    module.set_num_threads(1)  # on a busy machine, threads that wait for one another take many times as long
    return module


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What something expensive is expected to cost depends on the machine's load."""
    monkeypatch.setattr(hardware, "load", lambda: 1.0)


@pytest.fixture(autouse=True)
def processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which levers are offered must not depend on the machine: this one is to have bf16 arithmetic."""
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx2", "avx512f", "avx512_bf16")))
    monkeypatch.setattr(bf16, "_factors", {"cpu": 1.0})


@pytest.fixture(autouse=True)
def between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a core is free must not matter: what is expensive is made ready between two units."""
    monkeypatch.setattr(Background, "offer", lambda self, search, subject, levers: None)


@pytest.fixture
def session_of():
    """Return a session with a record in memory."""

    def make(levers=(), settings=None, cache=None, **trials: Any) -> Session:
        config = Config(levers=list(levers), settings=settings or {}, cache=cache and str(cache))
        config.trials = Trials(**{"mode": "live", "share": 1.0, **trials})
        session = Session(config)
        session.record = Memory()  # type: ignore[assignment]
        session.counters = Counters(session.record)
        return session

    return make
