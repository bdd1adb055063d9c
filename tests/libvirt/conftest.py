"""One host for all tests, and a controller with a folder of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import virtcloud


@pytest.fixture(scope="session")
def shared_host() -> Iterator[virtcloud.Host]:
    with virtcloud.running() as host:
        yield host


@pytest.fixture
def host(shared_host: virtcloud.Host) -> virtcloud.Host:
    """The host, with nothing on it but the machine image."""
    shared_host.clear()
    return shared_host


@pytest.fixture
def controller(host: virtcloud.Host, tmp_path: Path) -> virtcloud.Controller:
    controller = virtcloud.Controller(tmp_path)
    controller.describe(host)
    return controller
