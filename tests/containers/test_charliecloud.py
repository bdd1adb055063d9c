"""The real Charliecloud: labels, registries that it cannot speak to, and whatever Python comes first in PATH."""

import subprocess
from pathlib import Path

import pytest

from containers import FAST, Containers, UserTransport
from modak_deploy.errors import TargetError
from modak_deploy.images.store import ImageStore
from modak_deploy.model.plan import Image


@pytest.fixture
def secure(parts: Containers, debian: Image, monkeypatch: pytest.MonkeyPatch) -> Image:
    """The base system in the registry that speaks https."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    return Image(reference=f"docker://{parts.secure}/library/debian:12", digest=debian.digest)


def store_of(parts: Containers, images: Path, **environment: str) -> ImageStore:
    return ImageStore(UserTransport(parts, {"REQUESTS_CA_BUNDLE": str(parts.certificate), **environment}), str(images))


def test_an_image_whose_labels_are_others_is_refused(parts: Containers, images: Path, secure: Image) -> None:
    store = store_of(parts, images)
    path = store.pull(secure, "charliecloud", login=parts.login, compression=FAST).path
    right = secure.model_copy(update={"labels": {"org.opencontainers.image.title": "debian12"}})
    found = store.check(right, "charliecloud")
    assert found.labels["org.opencontainers.image.title"] == "debian12"
    assert found.architecture == "amd64"
    other = secure.model_copy(update={"labels": {"org.opencontainers.image.title": "debian11"}})
    with pytest.raises(TargetError, match=f"the image {path} is not the Plan's: its label .* says 'debian12'"):
        store.check(other, "charliecloud")
    missing = secure.model_copy(update={"labels": {"modak.digest": "sha256:0"}})
    with pytest.raises(TargetError, match=r"its label 'modak.digest' is not there and should be 'sha256:0'"):
        store.check(missing, "charliecloud")
    with pytest.raises(TargetError, match="is for amd64, and the Plan needs one for arm64"):
        store.check(secure.model_copy(update={"architecture": "arm64"}), "charliecloud")


def test_a_file_that_tells_nothing_of_itself_is_refused_where_labels_are_demanded(
    parts: Containers, images: Path
) -> None:
    parts.run("sh", "-c", "mkdir -p plain/bin && mksquashfs plain plain.sqfs -noappend -quiet -no-progress")
    path = f"{parts.home}/plain.sqfs"
    store = store_of(parts, images)
    image = Image(reference=path, digest=store.digest_of(path))
    store.check(image, "charliecloud")
    with pytest.raises(TargetError, match="its label 'a' is not there"):
        store.check(image.model_copy(update={"labels": {"a": "b"}}), "charliecloud")


def test_a_registry_without_tls_is_named_as_such(parts: Containers, images: Path, debian: Image) -> None:
    with pytest.raises(TargetError, match="ch-image speaks https only, and the registry speaks plain http") as caught:
        store_of(parts, images).pull(debian, "charliecloud")
    assert "SSL" not in str(caught.value)
    assert not list((images / ".work").iterdir())


def test_a_virtual_environment_first_in_path_does_not_matter(parts: Containers, images: Path, secure: Image) -> None:
    folder = parts.folder("environment")
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    parts.own(folder)
    path = parts.run("sh", "-c", 'printf %s "$PATH"')
    first = {"PATH": f"{folder}/bin:{path}", "VIRTUAL_ENV": str(folder), "PYTHONPATH": f"{folder}/nowhere"}
    with_it = parts.run("env", *(f"{k}={v}" for k, v in first.items()), "ch-image", "list", ok=False)
    assert "missing" in with_it or "No module" in with_it, with_it
    store = store_of(parts, images, **first)
    assert store.pull(secure, "charliecloud", login=parts.login, compression=FAST).pulled
