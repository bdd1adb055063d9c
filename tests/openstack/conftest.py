"""One project for all tests, and a controller with a folder of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import stackcloud


@pytest.fixture(scope="session")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stackcloud.Project]:
    with stackcloud.running(tmp_path_factory.mktemp("provider")) as project:
        yield project


@pytest.fixture
def project(shared_project: stackcloud.Project) -> stackcloud.Project:
    """The project, with nothing in it and nothing to fail."""
    shared_project.calls.clear()
    shared_project.launched.clear()
    shared_project.fail = None
    assert shared_project.is_empty(), shared_project.listed()
    return shared_project


@pytest.fixture
def controller(project: stackcloud.Project, tmp_path: Path) -> stackcloud.Controller:
    controller = stackcloud.Controller(tmp_path, rig=project.rig)
    controller.describe(project)
    return controller
