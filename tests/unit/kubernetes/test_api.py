"""Answers of an API server that a real one does not give on demand, and where credentials go."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from modak_deploy.errors import InputError, ModakError, TargetError
from modak_deploy.kubernetes.api import Cluster, Refused, path_of

pytest.importorskip("kubernetes.client", reason="needs the package kubernetes: pip install 'modak-deploy[kubernetes]'")


class Server(BaseHTTPRequestHandler):
    encoding: ClassVar[str] = "identity"
    answer: ClassVar[tuple[int, bytes]] = (200, b"{}")
    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        status, body = self.answer
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Encoding", self.encoding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "very-secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    Server.seen.clear()
    yield Cluster(config_file=str(path))
    server.shutdown()
    server.server_close()


def test_the_token_is_sent_to_the_cluster_alone(cluster: Cluster) -> None:
    Server.answer = (200, b'{"kind": "Job"}')
    assert cluster.get(path_of("jobs", "a", "b")) == {"kind": "Job"}
    assert Server.seen == [("/apis/batch/v1/namespaces/a/jobs/b", "Bearer very-secret")]


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (403, b'{"message": "exceeded quota: \\u001b[31mnone"}', Refused, "exceeded quota"),
        (401, b"not JSON", Refused, "log in"),
        (500, b"{}", TargetError, "fails (500)"),
        (302, b"", Refused, "302"),
        (200, b"not JSON", TargetError, "not JSON"),
        (200, b"[" * 100_000, TargetError, "not JSON"),
        (200, b"[]", TargetError, "not an object"),
    ],
)
def test_answers_that_are_errors(cluster: Cluster, status: int, body: bytes, kind: type[ModakError], text: str) -> None:
    Server.answer = (status, body)
    with pytest.raises(kind) as caught:
        cluster.get("/api/v1/nodes")
    message = str(caught.value)
    assert (text in message, "\x1b" in message, "very-secret" in message) == (True, False, False), message


def test_no_object_is_none(cluster: Cluster) -> None:
    Server.answer = (404, b"{}")
    assert cluster.get("/api/v1/nodes/n") is None


def test_no_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no cluster is configured"):
        Cluster(config_file=str(tmp_path / "absent"))


GOOD = {
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "abc"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "damaged"),
        ("[1]", "damaged"),
        ("text", "damaged"),
        (json.dumps({**GOOD, "clusters": [{"name": "c", "cluster": {"server": 5}}]}), "damaged"),
        (json.dumps({**GOOD, "clusters": "very-secret"}), "Expected key"),
        (json.dumps({**GOOD, "users": [{"name": "u", "user": {"token": "very-secret\nX: 1"}}]}), "token"),
        (json.dumps({**GOOD, "users": [{"name": "u", "user": {"token": "very-secret\u20ac"}}]}), "token"),
    ],
)
def test_a_damaged_configuration_is_told_without_its_values(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        Cluster(config_file=str(path)).get("/api/v1/nodes")
    assert "very-secret" not in str(caught.value)


def test_an_answer_that_is_compressed_is_not_unpacked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "encoding", "gzip")
    Server.answer = (200, gzip.compress(b" " * 300_000_000, 1))
    with pytest.raises(TargetError, match="not JSON"):
        cluster.get("/api/v1/nodes")
