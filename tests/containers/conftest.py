"""The real parts, and the images that the tests start from."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from containers import FAST, SCRIPT, Containers, UserTransport
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.images.ensure import Images, Wish
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse
from modak_deploy.model.target import Polling, Target
from rig import Rig


@pytest.fixture(scope="session")
def parts() -> Iterator[Containers]:
    """The container parts; they are stopped at the end if they were down before."""
    if os.geteuid() != 0:
        pytest.skip("these tests write into the home of another user: they take root")
    was_up = subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
    yield Containers.up()
    if not was_up:
        subprocess.run([SCRIPT, "down"], check=True, timeout=600)


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


@pytest.fixture
def there(store: ImageStore, artefact: Image) -> Path:
    """An image that was pulled."""
    return Path(store.pull(artefact, "apptainer").path)


@pytest.fixture(scope="session")
def catalogue(parts: Containers) -> Mapping[str, ImageEntry]:
    """The catalogue, with the base from the tests' registry."""
    images = dict(load_catalogue().images)
    base = {"origin": f"docker://{parts.registry}/library/debian:12"}
    return {**images, "debian12-cpu": images["debian12-cpu"].model_copy(update=base)}


@pytest.fixture(scope="session")
def site(parts: Containers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's catalogue, which has the base from its own registry."""
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "images.yaml").write_text(
        f"""version: 1
images:
  - name: debian12-cpu
    source: base
    origin: docker://{parts.registry}/library/debian:12
    distribution: debian12
    python: "3.11.2"
    glibc: "2.36"
"""
    )
    return folder


@pytest.fixture(scope="session")
def workspace(parts: Containers) -> Path:
    path = parts.home / "workspace"
    return path if path.exists() else parts.folder("workspace")


@pytest.fixture(scope="session")
def target(workspace: Path) -> Target:
    return Target(name="here", workspace=str(workspace), polling=Polling(first=0.5, maximum=2.0))


@pytest.fixture(scope="session")
def jobs(parts: Containers) -> Jobs:
    return Jobs(UserTransport(parts), timeouts=Timeouts(settle=2.0))


@pytest.fixture(scope="session")
def built_image(
    parts: Containers, jobs: Jobs, target: Target, workspace: Path, catalogue: Mapping[str, ImageEntry]
) -> Callable[[str], Path]:
    """Return what builds an image of the catalogue with Apptainer, once, and tells where it lies."""
    store = ImageStore(UserTransport(parts), str(workspace / "images"))
    images = Images(store, jobs, target, catalogue, logs=workspace / "logs")

    def build(name: str) -> Path:
        return Path(images.present(images.named(name), Wish("apptainer", "lz4")).path)

    return build


@pytest.fixture
def rig_with_runtimes(real_slurm: Rig, parts: Containers) -> Iterator[Rig]:
    """The real Slurm, whose user has the container runtimes when he logs in."""
    profile = real_slurm.home / ".bashrc"
    before = profile.read_text() if profile.exists() else None
    profile.write_text(parts.settings)
    try:
        yield real_slurm
    finally:
        if before is None:
            profile.unlink()
        else:
            profile.write_text(before)
        # Where Charliecloud mounts images; the next user of that name is another one.
        shutil.rmtree(f"/var/tmp/{real_slurm.home.owner()}.ch", ignore_errors=True)


@pytest.fixture(scope="session")
def login_file(parts: Containers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the login for the registry that asks for one, as podman keeps it."""
    path = tmp_path_factory.mktemp("login") / "auth.json"
    text = base64.b64encode(f"{parts.login.user}:{parts.login.password}".encode()).decode()
    path.write_text(json.dumps({"auths": {parts.secure: {"auth": text}}}))
    return path
