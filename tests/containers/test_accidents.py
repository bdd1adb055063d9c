"""Attacks and accidents: each is refused or survived, with one clear sentence and nothing half done."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import FAST, Containers, UserTransport
from imagelocks import held, process_of
from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore, read_keys
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse

ELSEWHERE = "0123-4567:4026531836:1000:77.1234:none"
"""The owner of a lock who is a process on another machine."""


def writable(path: Path) -> Path:
    path.chmod(0o644)
    return path


def flip(path: Path, place: int = -4000) -> None:
    """Change one byte of a file."""
    with writable(path).open("r+b") as file:
        file.seek(place, 0 if place >= 0 else 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))


@pytest.fixture(scope="session")
def keys(parts: Containers) -> Path:
    """Two pairs of keys, one of the site and one of somebody else."""
    folder = parts.folder("keys")
    for name in ("site", "other"):
        parts.run("openssl", "genrsa", "-out", f"{folder}/{name}.pem", "2048")
        parts.run("openssl", "rsa", "-in", f"{folder}/{name}.pem", "-pubout", "-out", f"{folder}/{name}.pub")
    return folder


@pytest.fixture(scope="session")
def signed(parts: Containers, sif: Path, keys: Path) -> Image:
    """The SIF, signed by the site, in the registry."""
    path = sif.with_name("signed.sif")
    shutil.copy(sif, path)
    parts.own(path)
    parts.run("apptainer", "sign", "--key", f"{keys}/site.pem", str(path))
    reference = f"oras://{parts.registry}/sif/signed:1"
    parts.run("apptainer", "push", "--no-https", str(path), reference)
    return Image(reference=reference, digest=resolve(parse(reference)).digest)


def test_a_tampered_image_is_refused(store: ImageStore, artefact: Image, there: Path) -> None:
    flip(there)
    with pytest.raises(TargetError, match=rf"the image {there} was changed: its hash is [0-9a-f]+ and should be"):
        store.check(artefact, "apptainer")


def test_a_signature_by_the_demanded_key_is_accepted(store: ImageStore, signed: Image, keys: Path) -> None:
    store.pull(signed, "apptainer")
    assert store.check(signed, "apptainer", read_keys([f"{keys}/site.pub"])).signed
    assert store.check(signed, "apptainer", read_keys([f"{keys}/other.pub", f"{keys}/site.pub"])).signed


def test_an_unsigned_image_is_refused_where_a_signature_is_demanded(
    store: ImageStore, artefact: Image, there: Path, keys: Path
) -> None:
    with pytest.raises(
        TargetError, match=f"{there} carries no valid signature by the key that is demanded: .*signature"
    ):
        store.check(artefact, "apptainer", read_keys([f"{keys}/site.pub"]))


def test_a_signature_by_another_key_is_refused(store: ImageStore, signed: Image, keys: Path) -> None:
    store.pull(signed, "apptainer")
    with pytest.raises(TargetError, match="no valid signature"):
        store.check(signed, "apptainer", read_keys([f"{keys}/other.pub"]))


def test_a_pgp_signature_is_checked_by_the_demanded_key_alone(
    parts: Containers, store: ImageStore, sif: Path, images: Path
) -> None:
    rings = {name: parts.folder(f"ring-{name}") for name in ("site", "other")}
    for name, ring in rings.items():
        ring.chmod(0o700)
        new = ["--name", name, "--email", f"{name}@example.org", "--comment", "x", "--password", "", "--push=false"]
        key = ["env", f"APPTAINER_KEYSDIR={ring}", "apptainer", "key"]
        parts.run(*key, "newpair", *new)
        parts.run(*key, "export", "--armor", f"{ring}/public.asc", stdin="0\n")
    path = images / "pgp.sif"
    shutil.copy(sif, path)
    parts.own(path)
    unsigned = Image(reference=str(path), digest=store.digest_of(str(path)))
    site, other = ([str(ring / "public.asc")] for ring in rings.values())
    with pytest.raises(TargetError, match=r"no valid signature by the key that is demanded: .*signature"):
        store.check(unsigned, "apptainer", read_keys(site))
    parts.run("env", f"APPTAINER_KEYSDIR={rings['site']}", "apptainer", "sign", str(path))
    signed = Image(reference=str(path), digest=store.digest_of(str(path)))
    assert store.check(signed, "apptainer", read_keys(site)).signed
    assert store.check(signed, "apptainer", read_keys(other + site)).signed
    with pytest.raises(TargetError, match="no valid signature"):
        store.check(signed, "apptainer", read_keys(other))


def test_a_tampered_image_with_a_forged_record_fails_its_signature(
    store: ImageStore, signed: Image, keys: Path
) -> None:
    path = Path(store.pull(signed, "apptainer").path)
    old = subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout.split()[0]
    flip(path, path.stat().st_size // 2)
    new = subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout.split()[0]
    record = writable(path.with_name(path.name + ".info"))
    record.write_text(record.read_text().replace(old, new))
    store.check(signed, "apptainer")
    with pytest.raises(TargetError, match="no valid signature"):
        store.check(signed, "apptainer", read_keys([f"{keys}/site.pub"]))


def test_a_private_key_is_not_taken_for_a_public_one(keys: Path) -> None:
    with pytest.raises(InputError, match="not a public key"):
        read_keys([f"{keys}/site.pem"])
    with pytest.raises(InputError, match="cannot be read"):
        read_keys([f"{keys}/nowhere.pub"])


def test_a_moved_tag_does_not_move_the_plan(parts: Containers, store: ImageStore, debian: Image) -> None:
    reference = f"docker://{parts.registry}/moving:1"
    name = reference.removeprefix("docker://")
    parts.run("podman", "push", "-q", "--tls-verify=false", "localhost/debian:12", name)
    pinned = Image(reference=reference, digest=resolve(parse(reference)).digest)
    parts.run("sh", "-c", "mkdir -p empty && cd empty && echo two >file && tar cf ../two.tar file")
    parts.run("podman", "import", "-q", "two.tar", "localhost/two:1")
    parts.run("podman", "push", "-q", "--tls-verify=false", "localhost/two:1", name)
    assert resolve(parse(reference)).digest != pinned.digest
    path = store.pull(pinned, "apptainer", compression=FAST).path
    assert "bookworm" in parts.run("apptainer", "exec", path, "cat", "/etc/os-release")


def test_a_digest_that_the_registry_lost_is_said_so(store: ImageStore, debian: Image) -> None:
    gone = Image(reference=debian.reference, digest="sha256:" + "1" * 64)
    with pytest.raises(TargetError, match="does not have"):
        store.pull(gone, "apptainer")


@pytest.mark.parametrize("runtime", ["apptainer", "podman"])
def test_a_truncated_download_is_refused(parts: Containers, store: ImageStore, images: Path, runtime: str) -> None:
    reference = f"docker://{parts.registry}/cut-{runtime}:1"
    parts.run("sh", "-c", f"mkdir -p cut && cd cut && head -c 300000 /dev/urandom >{runtime} && tar cf ../cut.tar .")
    parts.run("podman", "import", "-q", "cut.tar", f"localhost/cut-{runtime}:1")
    parts.run(
        "podman", "push", "-q", "--tls-verify=false", f"localhost/cut-{runtime}:1", reference.removeprefix("docker://")
    )
    parts.run("podman", "rmi", "--force", f"localhost/cut-{runtime}:1")
    pinned = Image(reference=reference, digest=resolve(parse(reference)).digest)
    links = parts.home.parent / "registry/docker/registry/v2/repositories" / f"cut-{runtime}" / "_layers/sha256"
    blobs = [
        parts.home.parent / f"registry/docker/registry/v2/blobs/sha256/{p.name[:2]}/{p.name}/data"
        for p in links.iterdir()
    ]
    largest = max(blobs, key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 2)
    with pytest.raises(TargetError, match="was not pulled"):
        store.pull(pinned, runtime)
    assert not list(images.glob("*.sif*"))


@pytest.fixture
def small_disk(parts: Containers) -> Iterator[Path]:
    """An image folder on a file system of 30 MB."""
    folder = parts.folder("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m,mode=777", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_room_is_looked_for_before_the_download(parts: Containers, small_disk: Path, artefact: Image) -> None:
    store = ImageStore(UserTransport(parts), str(small_disk))
    before = parts.requests("blobs/")
    with pytest.raises(TargetError, match=rf"{small_disk} has \d+ MB free, and \d+ MB are needed"):
        store.pull(artefact, "apptainer")
    assert parts.requests("blobs/") == before


def test_a_disk_that_fills_up_on_the_way_is_named(parts: Containers, small_disk: Path, artefact: Image) -> None:
    class Hopeful(ImageStore):
        def _call(self, step, arguments, *, stdin=b""):  # type: ignore[no-untyped-def]
            if step == "pull":
                arguments = [*arguments[:6], "1", *arguments[7:]]
            return super()._call(step, arguments, stdin=stdin)

    with pytest.raises(TargetError, match="no space left for it"):
        Hopeful(UserTransport(parts), str(small_disk)).pull(artefact, "apptainer")
    assert not list(small_disk.glob("*.sif*"))
    assert not list((small_disk / ".work").iterdir())


def test_an_image_for_other_processors_is_refused_by_its_registry_entry(parts: Containers) -> None:
    parts.run("sh", "-c", "mkdir -p arm && cd arm && echo arm >file && tar cf ../arm.tar file")
    parts.run("podman", "import", "-q", "--os", "linux", "--arch", "arm64", "arm.tar", "localhost/arm:1")
    parts.run("podman", "push", "-q", "--tls-verify=false", "localhost/arm:1", f"{parts.registry}/arm:1")
    with pytest.raises(InputError, match="is for arm64, and amd64 is needed"):
        resolve(parse(f"docker://{parts.registry}/arm:1"))


def test_a_file_for_other_processors_is_refused(parts: Containers, store: ImageStore, sif: Path, images: Path) -> None:
    path = images / "arm.sif"
    data = bytearray(sif.read_bytes())
    assert data[32:41] == b"SIF_MAGIC"
    data[45:47] = b"04"
    path.write_bytes(data)
    parts.own(path)
    image = Image(reference=str(path), digest=store.digest_of(str(path)))
    with pytest.raises(TargetError, match=f"the image {path} is for arm64, and the Plan needs one for amd64"):
        store.check(image, "apptainer")


def test_an_image_with_other_labels_than_the_plan_says_is_refused(
    store: ImageStore, artefact: Image, there: Path
) -> None:
    good = artefact.model_copy(update={"labels": {"org.opencontainers.image.title": "debian12"}})
    assert store.check(good, "apptainer").labels["org.opencontainers.image.title"] == "debian12"
    for label, says in (("org.opencontainers.image.title", "says 'debian12'"), ("modak.digest", "is not there")):
        bad = artefact.model_copy(update={"labels": {label: "tensorflow"}})
        with pytest.raises(TargetError, match=f"its label '{label}' {says} and should be 'tensorflow'"):
            store.check(bad, "apptainer")


def test_a_file_that_is_not_the_one_the_plan_names_is_refused(store: ImageStore, sif: Path) -> None:
    image = Image(reference=str(sif), digest="sha256:" + "2" * 64)
    with pytest.raises(TargetError, match="was changed: its hash is"):
        store.check(image, "apptainer")
    with pytest.raises(TargetError, match="is not there"):
        store.check(Image(reference="/nowhere/a.sif", digest=image.digest), "apptainer")


@pytest.mark.parametrize(
    ("runtime", "size", "says"),
    [
        ("apptainer", 0, "cannot be run: .*image format not recognized"),
        ("apptainer", 10_000_000, "is truncated: it has 10000000 bytes and should have [0-9]{8}"),
        ("charliecloud", 10_000_000, "is none that Charliecloud mounts"),
    ],
)
def test_a_file_that_is_no_image_or_half_of_one_is_refused(
    parts: Containers, store: ImageStore, sif: Path, images: Path, runtime: RuntimeName, size: int, says: str
) -> None:
    path = images / ("half.sqfs" if runtime == "charliecloud" else "half.sif")
    path.write_bytes(sif.read_bytes()[:size])
    parts.own(path)
    image = Image(reference=str(path), digest=store.digest_of(str(path)))
    with pytest.raises(TargetError, match=f"the image {path} {says}"):
        store.check(image, runtime)


def test_a_pull_that_was_killed_is_taken_over_at_once(
    parts: Containers, store: ImageStore, images: Path, debian: Image
) -> None:
    line = ImageStore(UserTransport(parts), str(images))
    process = _start_pull(parts, line, debian)
    _wait(lambda: held(images))
    (owner,) = held(images)
    time.sleep(1)
    os.kill(process_of(owner), signal.SIGKILL)
    process.wait(30)
    assert not list(images.glob("*.sif"))
    began = time.monotonic()
    assert store.pull(debian, "apptainer", compression=FAST).pulled
    assert time.monotonic() - began < 60
    assert not held(images)


def _start_pull(parts: Containers, store: ImageStore, image: Image) -> "subprocess.Popen[bytes]":
    """Start a pull in a process of its own, as far as its first step on the target."""
    captured: list[str] = []

    class Catching(UserTransport):
        def run(self, command, **options):  # type: ignore[no-untyped-def]
            if "download_apptainer" in command:
                captured.append(command)
                raise TargetError("caught")
            return super().run(command, **options)

    with pytest.raises(TargetError, match="caught"):
        ImageStore(Catching(parts), store.images).pull(image, "apptainer")
    return subprocess.Popen(
        parts.command("/bin/sh", "-c", captured[0]), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _wait(condition, seconds: float = 20) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_holder_on_another_machine_that_is_silent_loses_the_lock(
    parts: Containers, images: Path, artefact: Image
) -> None:
    store = ImageStore(UserTransport(parts, {"MODAK_LOCK_PATIENCE": "2"}), str(images))
    name = Path(store.pull(artefact, "apptainer").path)
    name.unlink()
    (images / ".locks" / name.name / "2").symlink_to(ELSEWHERE)
    assert store.pull(artefact, "apptainer").pulled
    assert not held(images)


def test_a_holder_on_another_machine_that_lives_is_waited_for(parts: Containers, images: Path, artefact: Image) -> None:
    store = ImageStore(UserTransport(parts, {"MODAK_LOCK_PATIENCE": "3"}), str(images))
    name = Path(store.pull(artefact, "apptainer").path)
    lock = images / ".locks" / name.name
    name.rename(name.with_suffix(".kept"))
    (lock / "2").symlink_to(ELSEWHERE)
    process = _start_pull(parts, store, artefact)
    for _ in range(12):  # twice its patience
        with (lock / "2.alive").open("a") as file:
            file.write("\n")
        time.sleep(0.5)
    assert held(images) == [ELSEWHERE]
    assert process.poll() is None
    name.with_suffix(".kept").rename(name)
    (lock / "2.free").touch()
    assert process.wait(30) == 0


def test_a_read_only_image_folder_is_named(parts: Containers, store: ImageStore, images: Path, artefact: Image) -> None:
    images.chmod(0o555)
    with pytest.raises(TargetError, match=rf"the image folder {images} cannot be made: Permission denied"):
        store.pull(artefact, "apptainer")


def test_a_missing_runtime_is_named(parts: Containers, images: Path, artefact: Image) -> None:
    store = ImageStore(UserTransport(parts, {"PATH": "/usr/bin:/bin"}), str(images))
    with pytest.raises(TargetError, match="apptainer is not on this machine's PATH"):
        store.pull(artefact, "apptainer")
    assert not held(images)


def test_an_image_without_a_record_is_not_trusted(store: ImageStore, artefact: Image, there: Path) -> None:
    there.with_name(there.name + ".info").unlink()
    with pytest.raises(TargetError, match="has no record of what was pulled"):
        store.check(artefact, "apptainer")
    assert store.pull(artefact, "apptainer").pulled
