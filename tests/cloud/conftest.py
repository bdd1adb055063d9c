"""One cloud for all tests, and a controller with a folder of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import cloud as clouds


@pytest.fixture(scope="session")
def shared_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clouds.Cloud]:
    clouds.needs_cloud()
    with clouds.own_network(), clouds.running(tmp_path_factory.mktemp("provider")) as cloud:
        yield cloud


@pytest.fixture
def cloud(shared_cloud: clouds.Cloud) -> clouds.Cloud:
    """The cloud, with nothing in it and nothing to fail."""
    shared_cloud.calls.clear()
    shared_cloud.launched.clear()
    shared_cloud.no_capacity.clear()
    shared_cloud.taken.clear()
    shared_cloud.fail = None
    assert (shared_cloud.live(), shared_cloud.groups()) == ([], [])
    return shared_cloud


@pytest.fixture
def controller(cloud: clouds.Cloud, tmp_path: Path) -> clouds.Controller:
    controller = clouds.Controller(tmp_path)
    document = clouds.document(tmp_path)
    document["target"]["workspace"] = str(cloud.folder / "work" / "modak")
    controller.write(document)
    return controller
