"""The real parts, and the images that the tests start from."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import FAST, SCRIPT, Containers, UserTransport
from modak.images.reference import parse
from modak.images.registry import resolve
from modak.images.store import ImageStore
from modak.model.plan import Image


@pytest.fixture(scope="session")
def parts() -> Iterator[Containers]:
    """The container parts; they are stopped at the end if they were down before."""
    if os.geteuid() != 0:
        pytest.skip("these tests write into the home of another user: they take root")
    was_up = subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
    yield Containers.up()
    if not was_up:
        subprocess.run([SCRIPT, "down"], check=True, timeout=120)


@pytest.fixture
def images(parts: Containers, request: pytest.FixtureRequest) -> Path:
    """An empty image folder of the user's."""
    return parts.folder("images")


@pytest.fixture
def store(parts: Containers, images: Path) -> ImageStore:
    return ImageStore(UserTransport(parts), str(images))


@pytest.fixture(scope="session")
def debian(parts: Containers) -> Image:
    """The base system in the plain registry, pinned."""
    reference = f"docker://{parts.registry}/library/debian:12"
    return Image(reference=reference, digest=resolve(parse(reference)).digest)


@pytest.fixture(scope="session")
def sif(parts: Containers, debian: Image) -> Path:
    """A SIF of the base system."""
    path = parts.folder("made") / "debian.sif"
    parts.run("apptainer", "build", "--no-https", "--mksquashfs-args", FAST, str(path), debian.reference)
    return path


@pytest.fixture(scope="session")
def artefact(parts: Containers, sif: Path) -> Image:
    """That SIF in the registry, pinned."""
    reference = f"oras://{parts.registry}/sif/debian:12"
    parts.run("apptainer", "push", "--no-https", str(sif), reference)
    return Image(reference=reference, digest=resolve(parse(reference)).digest)
