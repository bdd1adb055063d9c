"""Pulling from real registries with the real Apptainer, podman and Charliecloud."""

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from containers import FAST, Containers, UserTransport, ask
from imagelocks import held
from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse


def test_an_image_of_layers_is_pulled_by_its_digest_and_runs(
    parts: Containers, store: ImageStore, debian: Image
) -> None:
    found = store.pull(debian, "apptainer", compression=FAST)
    assert found.pulled
    checked = store.check(debian, "apptainer")
    assert checked.sha256 == found.sha256
    assert checked.architecture == "amd64"
    assert checked.labels["org.opencontainers.image.title"] == "debian12"
    assert "VERSION_CODENAME=bookworm" in parts.run("apptainer", "exec", found.path, "cat", "/etc/os-release")
    assert not store.pull(debian, "apptainer").pulled


def test_a_sif_of_a_registry_comes_bit_by_bit(store: ImageStore, artefact: Image, sif: Path) -> None:
    found = store.pull(artefact, "apptainer")
    assert Path(found.path).read_bytes() == sif.read_bytes()


@pytest.fixture
def library(sif: Path) -> Iterator[str]:
    """Host and port of a server that speaks as much of the library protocol as Apptainer asks for."""
    content = sif.read_bytes()
    told = {"hash": f"sha256.{hashlib.sha256(content).hexdigest()}", "size": len(content), "uploaded": True}
    answers = {"images": json.dumps({"data": told}).encode(), "imagefile": content}

    class Library(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path.split("/")[2], b"") if "/e/c/n:" in self.path else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Library) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_library_that_the_user_s_apptainer_does_not_know_is_pulled_from(
    store: ImageStore, library: str, sif: Path
) -> None:
    reference = f"library://{library}/e/c/n:1"
    image = Image(reference=reference, digest=resolve(parse(reference)).digest)
    assert Path(store.pull(image, "apptainer").path).read_bytes() == sif.read_bytes()
    assert store.check(image, "apptainer").architecture == "amd64"
    with pytest.raises(TargetError, match=f"the library {library} does not have"):
        resolve(parse(f"library://{library}/e/c/other:1"))


def test_a_site_says_where_images_are_unpacked(parts: Containers, images: Path, debian: Image) -> None:
    local = parts.folder("local disk")
    there = ImageStore(UserTransport(parts, {"APPTAINER_TMPDIR": str(local)}), str(images))
    assert there.pull(debian, "apptainer", compression=FAST).pulled
    assert not list(local.iterdir())
    nowhere = ImageStore(UserTransport(parts, {"APPTAINER_TMPDIR": "/nowhere"}), f"{images}/other")
    with pytest.raises(TargetError, match="APPTAINER_TMPDIR names /nowhere, where no folder can be made"):
        nowhere.pull(debian, "apptainer")


def test_compression_is_a_choice(store: ImageStore, debian: Image) -> None:
    found = store.pull(debian, "apptainer", compression=FAST)
    store.check(debian, "apptainer")
    assert b"zstd" in subprocess.run(["unsquashfs", "-s", "-o", _offset(found.path), found.path],
                                     capture_output=True, check=True).stdout  # fmt: skip


def _offset(path: str) -> str:
    return str(Path(path).read_bytes().index(b"hsqs"))


def test_twenty_pulls_at_once_are_one_download(parts: Containers, images: Path, debian: Image, artefact: Image) -> None:
    layer = resolve(parse(artefact.reference)).sif_sha256
    before = parts.requests(f"blobs/sha256:{layer}")

    def pull(number: int) -> tuple[bool, str]:
        found = ImageStore(UserTransport(parts), str(images)).pull(artefact, "apptainer", holder=f"/runs/job-{number}")
        return found.pulled, found.sha256

    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(pull, range(20)))
    assert [pulled for pulled, _ in results].count(True) == 1
    assert len({sha for _, sha in results}) == 1
    assert parts.requests(f"blobs/sha256:{layer}") == before + 1
    assert len(list((images / ".holders").glob("*/job-*"))) == 20
    assert not held(images)
    assert not list((images / ".work").iterdir())


def test_a_registry_with_a_login_gets_it_and_nobody_else_sees_it(
    parts: Containers, images: Path, debian: Image, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    image = Image(reference=f"docker://{parts.secure}/library/debian:12", digest=debian.digest)
    commands: list[str] = []

    class Watching(UserTransport):
        def run(self, command, **options):  # type: ignore[no-untyped-def]
            commands.append(command)
            return super().run(command, **options)

    store = ImageStore(Watching(parts, {"SSL_CERT_FILE": str(parts.certificate)}), str(images))
    with pytest.raises(InputError, match="asks for a login"):
        store.pull(image, "apptainer")
    found = store.pull(image, "apptainer", login=parts.login, compression=FAST)
    assert found.pulled
    secret = parts.login.password
    assert not any(secret in text for text in (*commands, caplog.text, repr(parts.login), repr(found)))
    assert not subprocess.run(["grep", "-rl", secret, str(images)], capture_output=True).stdout


def test_a_wrong_password_is_said_to_be_one(
    parts: Containers, store: ImageStore, debian: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    image = Image(reference=f"docker://{parts.secure}/library/debian:12", digest=debian.digest)
    with pytest.raises(InputError, match="refuses the login"):
        store.pull(image, "apptainer", login=type(parts.login)("reader", "wrong"))


def test_podman_pulls_into_its_own_store(parts: Containers, store: ImageStore, debian: Image) -> None:
    parts.run("podman", "rmi", "--force", debian.reference.removeprefix("docker://"), ok=False)
    store.pull(debian, "podman")
    found = store.check(debian, "podman")
    assert found.architecture == "amd64"
    assert "bookworm" in parts.run("podman", "run", "--rm", "--pull=never", found.path, "cat", "/etc/os-release")
    assert not store.pull(debian, "podman").pulled
    with pytest.raises(InputError, match="podman does not support SIF images of a registry"):
        store.pull(Image(reference=f"oras://{parts.registry}/a", digest=debian.digest), "podman")


def test_charliecloud_gets_a_squashed_image(
    parts: Containers, images: Path, debian: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    image = Image(reference=f"docker://{parts.secure}/library/debian:12", digest=debian.digest)
    store = ImageStore(UserTransport(parts, {"REQUESTS_CA_BUNDLE": str(parts.certificate)}), str(images))
    found = store.pull(image, "charliecloud", login=parts.login, compression=FAST)
    store.check(image, "charliecloud")
    assert "bookworm" in parts.run("ch-run", found.path, "--", "cat", "/etc/os-release")


def test_a_registry_that_is_gone_in_the_middle_leaves_nothing_behind(
    parts: Containers, images: Path, artefact: Image, store: ImageStore
) -> None:
    class Leaving(UserTransport):
        def run(self, command, **options):  # type: ignore[no-untyped-def]
            if "download_apptainer" in command:
                ask("registry", "stop")
            return super().run(command, **options)

    try:
        with pytest.raises(TargetError, match=r"was not pulled: .*connect"):
            ImageStore(Leaving(parts), str(images)).pull(artefact, "apptainer")
        assert not list(images.glob("*.sif*"))
        assert not list((images / ".work").iterdir())
        with pytest.raises(TargetError, match="cannot be reached: Connection refused"):
            store.pull(artefact, "apptainer")
    finally:
        ask("registry", "start")
    assert store.pull(artefact, "apptainer").pulled


def test_an_image_that_is_there_runs_without_its_registry(
    parts: Containers, store: ImageStore, artefact: Image
) -> None:
    store.pull(artefact, "apptainer")
    ask("registry", "stop")
    try:
        assert not store.pull(artefact, "apptainer").pulled
        store.check(artefact, "apptainer")
    finally:
        ask("registry", "start")
