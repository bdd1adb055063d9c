"""What the tests of the real inference server share."""

import os
import sys
from pathlib import Path

import pytest

from onnxparts import bundle, linear
from serving import WEIGHTS, Server


@pytest.fixture(scope="session")
def python():
    """An interpreter with MLServer: this one, or the one that MODAK_SERVE_PYTHON names."""
    named = os.environ.get("MODAK_SERVE_PYTHON")
    if named:
        return named
    pytest.importorskip("mlserver", reason="MLServer is not installed: pip install 'modak-deploy[serve-model]'")
    return sys.executable


@pytest.fixture(scope="session")
def served(tmp_path_factory) -> Path:
    return bundle(tmp_path_factory.mktemp("served") / "bundle", {"line": linear(WEIGHTS)}).folder


@pytest.fixture(scope="session")
def server(served, python, tmp_path_factory):
    """One server for all tests that do not stop it."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    with Server(served, log, "--max-request", "2", "--receive-seconds", "3", python=python) as running:
        yield running
