"""The commands of modak image, as an ordinary user gives them, against the registry that asks for a login."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import Containers
from modak_deploy.model.reference import parse
from rig import TOP

MODAK = TOP / ".venv" / "bin" / "modak"


class Watcher(threading.Thread):
    """Looks at the command lines of all processes, again and again, for a text that must not be there."""

    def __init__(self, secret: str) -> None:
        super().__init__(daemon=True)
        self.secret, self.done = secret.encode(), threading.Event()
        self.looks, self.seen = 0, set[bytes]()
        self.programs = set[bytes]()

    def run(self) -> None:
        while not self.done.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                self.programs.add(words.split(b"\0")[0].rpartition(b"/")[2])
                if self.secret in words:
                    self.seen.add(words)
            self.looks += 1
            self.done.wait(0.005)


@pytest.fixture
def watched(parts: Containers) -> Iterator[Watcher]:
    watcher = Watcher(parts.login.password)
    watcher.start()
    yield watcher
    watcher.done.set()
    watcher.join()


@pytest.fixture
def settings(parts: Containers, login_file: Path) -> list[str]:
    """The user's environment: his login and the registry's certificate."""
    if parts.run("sh", "-c", 'test -x "$0" || echo no', str(MODAK)):
        pytest.skip(f"{parts.user} cannot run {MODAK}: this checkout lies in a folder that only its owner reads")
    kept = parts.folder("login") / "auth.json"
    kept.write_bytes(login_file.read_bytes())
    kept.chmod(0o600)
    parts.own(kept)
    names = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
    return [
        "env",
        f"REGISTRY_AUTH_FILE={kept}",
        "NO_COLOR=1",
        f"PYTHONPATH={TOP}",
        *(f"{n}={parts.certificate}" for n in names),
    ]


def test_push_pull_verify_and_tidy_up_with_a_login_that_nobody_sees(
    parts: Containers, settings: list[str], watched: Watcher, images: Path
) -> None:
    said: list[str] = []

    def modak(*words: str, ok: bool = True) -> str:
        said.append(parts.run(*settings, str(MODAK), "image", *words, ok=ok))
        return said[-1]

    there = ["--images", str(images)]
    debian = f"docker://{parts.secure}/library/debian:12"
    assert "digest: sha256:" in modak("inspect", debian)
    pulled = modak("pull", debian, *there, "--compression", "zstd")
    (file,) = images.glob("*.sif")
    assert f"path: {file}" in pulled
    assert "signed: False" in modak("verify", debian, *there)
    artefact = modak("push", str(file), f"oras://{parts.secure}/mine/debian:1").split()[-1]
    assert artefact.startswith(f"oras://{parts.secure}/mine/debian@sha256:")
    modak("pull", artefact, *there)
    (other,) = set(images.glob("*.sif")) - {file}
    assert other.read_bytes() == file.read_bytes()
    assert "architecture: amd64" in modak("verify", artefact, *there)
    assert "kept" in modak("gc", *there)
    assert f"would remove {file.name}" in modak("gc", "--days", "0", "--dry-run", *there)
    assert f"removed {file.name}" in modak("gc", "--days", "0", *there)
    assert not list(images.glob("*.sif*"))
    assert f"the image {file} is not there" in modak("verify", debian, *there, ok=False)
    secret = parts.login.password
    assert not [text for text in said if secret in text]
    assert watched.looks > 50
    assert any(name.startswith(b"apptainer") for name in watched.programs)
    assert not watched.seen
    assert not [path for path in images.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_podman_pushes_and_pulls_with_the_login(parts: Containers, settings: list[str], watched: Watcher) -> None:
    reference = f"docker://{parts.secure}/mine/podman:1"
    modak = [*settings, str(MODAK), "image"]
    pinned = parts.run(*modak, "push", "localhost/debian:12", reference, "--runtime", "podman").split()[-1]
    assert parse(pinned).digest
    parts.run("podman", "rmi", "--force", pinned.removeprefix("docker://"), ok=False)
    assert f"reference: {pinned}" in parts.run(*modak, "pull", pinned, "--runtime", "podman")
    assert "architecture: amd64" in parts.run(*modak, "verify", pinned, "--runtime", "podman")
    assert not watched.seen


def test_the_definition_is_written_for_both_builders(parts: Containers, settings: list[str]) -> None:
    folder = parts.folder("defined")
    said = parts.run(*settings, str(MODAK), "image", "define", "numexpr-2.14-src-cpu", "-m", "zen3", "-o", str(folder))
    assert {"image.def", "Containerfile", "build.sh", "requirements.txt"} <= {path.name for path in folder.iterdir()}
    assert str(folder) in said
    assert "-march=znver3" in (folder / "build.sh").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["inspect", "keras-3.15-pip-cpuu"], "did you mean 'keras-3.15-pip-cpu'"),
        (["pull", "no-such-image"], "the catalogue has no image 'no-such-image'"),
        (["build", "tensorflow-2.1-hub-cpu"], "use modak image pull"),
        (["pull", "numexpr-2.14-pip-cpu"], "use modak image build"),
        (["push", "/nowhere.sif", "docker://127.0.0.1/x:1"], "write oras://HOST/NAME:TAG"),
        (["push", "/nowhere.sif", "docker://127.0.0.1/x:1", "-r", "charliecloud"], "charliecloud cannot push"),
        (["verify", "/nowhere.sif"], "the image /nowhere.sif is not there"),
        (["pull", "docker://127.0.0.1:9/x:1"], "cannot be reached"),
        (["pull", "docker://UPPER/x y"], "UPPER"),
        (["build", "numexpr-2.14-pip-cpu", "--compression", "brotli"], "use one of gzip, zstd, lz4, none"),
        (["build", "numexpr-2.14-src-cpu", "-m", "pentium9"], "pentium9"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(parts: Containers, settings: list[str], words: list[str], says: str) -> None:
    said = parts.run(*settings, "sh", "-c", '"$@"; echo "code $?"', "sh", str(MODAK), "image", *words)
    *text, code = said.strip().splitlines()
    assert code != "code 0"
    assert "Traceback" not in said
    assert says in " ".join(" ".join(text).split()), said
