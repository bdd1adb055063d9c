"""A registry that stops in the middle of a blob ends a pull by the lack of progress, and what came is told."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.errors import TargetError
from modak_deploy.images import store as storing
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse


@pytest.fixture
def stalling(parts: Containers) -> Iterator[str]:
    """Host and port of a registry that has what the real one has, and sends 2 MB of a large blob and then nothing."""
    over = threading.Event()

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = urllib.request.Request(f"http://{parts.registry}{self.path}", headers=dict(self.headers))
            try:
                with urllib.request.urlopen(wanted) as answer:  # noqa: S310 - http, to the tests' own registry
                    body, headers = answer.read(), answer.headers
            except OSError:
                self.send_error(404)
                return
            self.send_response(200)
            for name in ("Content-Type", "Docker-Content-Digest"):
                if headers[name]:
                    self.send_header(name, headers[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if len(body) < 4_000_000:
                self.wfile.write(body)
                return
            self.wfile.write(body[:2_000_000])
            self.wfile.flush()
            over.wait(600)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        over.set()
        server.shutdown()


def large(parts: Containers) -> Image:
    """An image in the real registry whose layer podman does not have."""
    name = f"{parts.registry}/stalling:1"
    parts.run("sh", "-c", "mkdir -p stall && cd stall && head -c 6000000 /dev/urandom >a && tar cf ../stall.tar a")
    parts.run("podman", "import", "-q", "stall.tar", name)
    parts.run("podman", "push", "-q", "--tls-verify=false", name)
    parts.run("podman", "rmi", "--force", name)
    return Image(reference=f"docker://{name}", digest=resolve(parse(f"docker://{name}")).digest)


@pytest.mark.parametrize("runtime", ["apptainer", "podman"])
def test_a_pull_without_progress_ends_and_says_how_far_it_came(
    parts: Containers, images: Path, stalling: str, artefact: Image, monkeypatch: pytest.MonkeyPatch,
    runtime: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(storing, "PROGRESS", 1.0)
    image = artefact if runtime == "apptainer" else large(parts)
    image = image.model_copy(update={"reference": image.reference.replace(parts.registry, stalling)})
    said: list[str] = []
    store = ImageStore(UserTransport(parts), str(images), stall=20, notice=said.append)
    began = time.monotonic()
    with pytest.raises(TargetError, match=r"was not pulled: nothing has come for 20 s, after \d+ MB"):
        store.pull(image, runtime)
    assert time.monotonic() - began < 300
    assert [text for text in said if " MB of " in text and text.endswith("%)")], said
    assert not list(images.glob("*.sif*"))
    assert not list((images / ".work").glob("*"))
