"""The registry client against a server that does what real ones do seldom; the real ones are in tests/containers."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.credentials import Login
from modak_deploy.images.registry import is_loopback, resolve
from modak_deploy.model.reference import parse

Answer = Callable[[str, dict[str, str]], tuple[int, dict[str, str], bytes]]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Server:
    """A registry of two images: one with variants, one without."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.answer: Answer | None = None
        handler = type("Handler", (_Handler,), {"server_": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.http.server_port}"

    def add(self, tag: str, architecture: str, labels: dict[str, str] | None = None, **extra: Any) -> str:
        config = json.dumps({"architecture": architecture, "config": {"Labels": labels}}).encode()
        self.blobs[digest(config)] = config
        layers = [{"size": 1000, "digest": "sha256:0", "mediaType": "layer"}, {"size": 234}]
        return self.put(tag, {"config": {"digest": digest(config)}, "layers": layers, **extra})

    def put(self, tag: str, manifest: Any) -> str:
        body = json.dumps(manifest).encode()
        self.manifests[tag] = self.manifests[digest(body)] = body
        return digest(body)


class _Handler(BaseHTTPRequestHandler):
    server_: Server

    def do_GET(self) -> None:
        server = self.server_
        authorization = self.headers.get("Authorization")
        server.seen.append((self.path, authorization))
        special = server.answer(self.path, dict(self.headers)) if server.answer else None
        if special:
            code, headers, body = special
        else:
            name = self.path.rpartition("/")[2]
            body = (server.manifests if "/manifests/" in self.path else server.blobs).get(name, b"")
            code, headers = (200 if body else 404), {}
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()


def test_an_image_is_resolved_to_digest_size_and_labels(server: Server) -> None:
    wanted = server.add("1", "amd64", {"a": "b"})
    found = resolve(parse(f"docker://{server.host}/app:1"))
    assert (found.digest, found.size, found.architecture, found.labels) == (wanted, 1234, "amd64", {"a": "b"})
    assert str(found.reference) == f"docker://{server.host}/app@{wanted}"


def test_the_variant_for_the_processor_is_chosen(server: Server) -> None:
    variants = [
        {"digest": server.add(name, name), "platform": {"architecture": name, "os": "linux"}}
        for name in ("amd64", "arm64")
    ]
    server.put("many", {"manifests": variants})
    assert resolve(parse(f"docker://{server.host}/app:many"), "arm64").digest == variants[1]["digest"]
    with pytest.raises(InputError, match="not found for ppc64le, only for amd64, arm64"):
        resolve(parse(f"docker://{server.host}/app:many"), "ppc64le")


def test_an_image_for_another_processor_is_refused(server: Server) -> None:
    server.add("1", "arm64")
    with pytest.raises(InputError, match="is for arm64, and amd64 is needed"):
        resolve(parse(f"docker://{server.host}/app:1"))
    assert resolve(parse(f"docker://{server.host}/app:1"), None).architecture == "arm64", "one that was pushed just now"


def test_a_registry_that_sends_something_else_is_caught(server: Server) -> None:
    wanted = server.add("1", "amd64")
    server.manifests[wanted] = server.manifests[wanted] + b" "
    with pytest.raises(TargetError, match="does not match its digest"):
        resolve(parse(f"docker://{server.host}/app@{wanted}"))
    server.add("2", "amd64")
    for name in server.blobs:
        server.blobs[name] = b'{"architecture": "amd64" }'
    with pytest.raises(TargetError, match="does not match its digest"):
        resolve(parse(f"docker://{server.host}/app:2"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, {}, b"<html>"), "does not answer as a registry does"),
        ((200, {}, b"[]"), "does not answer as a registry does"),
        ((200, {}, b" " * (9 * 1024 * 1024)), "does not answer as a registry does"),
        ((500, {}, b""), "answers 500"),
        ((404, {}, b""), "does not have"),
        ((403, {}, b""), "refuses the login"),
        ((401, {"WWW-Authenticate": 'Basic realm="r"'}, b""), "asks for a login"),
    ],
)
def test_odd_answers_are_one_sentence(server: Server, answer: tuple[int, dict[str, str], bytes], says: str) -> None:
    server.answer = lambda path, headers: answer
    with pytest.raises((InputError, TargetError), match=says) as caught:
        resolve(parse(f"docker://{server.host}/app:1"))
    assert "\n" not in str(caught.value)


def with_token(server: Server) -> Any:
    """Return the answers of a registry that requires a token."""

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        if path.startswith("/token"):
            return 200, {}, json.dumps({"token": "t1"}).encode()
        if headers.get("Authorization") != "Bearer t1":
            realm = f'Bearer realm="http://{server.host}/token",service="s",scope="repository:app:pull"'
            return 401, {"WWW-Authenticate": realm}, b""
        return None

    return answer


def test_a_token_is_fetched_with_the_login_and_then_used(server: Server) -> None:
    server.add("1", "amd64")
    server.answer = with_token(server)
    resolve(parse(f"docker://{server.host}/app:1"), login=Login("me", "secret"))
    [token] = [seen for seen in server.seen if seen[0].startswith("/token")]
    assert token[0] == "/token?service=s&scope=repository%3Aapp%3Apull"
    assert (token[1] or "").startswith("Basic ")
    assert all("Basic" not in (seen[1] or "") for seen in server.seen if seen != token)


def test_a_login_that_is_not_accepted_is_said_so(server: Server) -> None:
    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/token"):
            return 401, {}, b""
        return 401, {"WWW-Authenticate": f'Bearer realm="http://{server.host}/token"'}, b""

    server.answer = answer
    with pytest.raises(InputError, match="does not accept the login kept for it"):
        resolve(parse(f"docker://{server.host}/app:1"), login=Login("me", "secret"))
    with pytest.raises(InputError, match="does not accept requests without a login"):
        resolve(parse(f"docker://{server.host}/app:1"))


def test_a_login_is_not_sent_in_the_clear_to_where_a_registry_points(server: Server) -> None:
    server.answer = lambda *_: (401, {"WWW-Authenticate": 'Bearer realm="http://token.example.org/a"'}, b"")
    with pytest.raises(TargetError, match=r"requires the login in plain text to 'http://token.example.org/a'"):
        resolve(parse(f"docker://{server.host}/app:1"), login=Login("me", "secret"))


def test_a_sif_of_a_registry_brings_its_hash(server: Server) -> None:
    layer = {"mediaType": "application/vnd.sylabs.sif.layer.v1.sif", "digest": "sha256:" + "a" * 64, "size": 7}
    server.put("1", {"layers": [layer]})
    found = resolve(parse(f"oras://{server.host}/app:1"))
    assert (found.sif_sha256, found.size) == ("a" * 64, 7)
    with pytest.raises(InputError, match="is a SIF image; write 'oras://'"):
        resolve(parse(f"docker://{server.host}/app:1"))
    server.add("2", "amd64")
    with pytest.raises(InputError, match="is not a SIF image"):
        resolve(parse(f"oras://{server.host}/app:2"))


def test_a_library_tells_hash_and_size(server: Server) -> None:
    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        assert path == "/v1/images/e/c/n:1?arch=amd64"
        return 200, {}, json.dumps({"data": {"hash": "sha256." + "b" * 64, "size": 9}}).encode()

    server.answer = answer
    found = resolve(parse(f"library://{server.host}/e/c/n:1"))
    assert str(found.reference) == f"library://{server.host}/e/c/n:sha256.{'b' * 64}"
    assert (found.sif_sha256, found.size) == ("b" * 64, 9)
    for body, says in ((b"{}", "as a library does"), (b'{"data": {"hash": "sif.123"}}', "no SHA-256")):
        server.answer = lambda path, headers, body=body: (200, {}, body)  # type: ignore[misc]
        with pytest.raises(TargetError, match=says):
            resolve(parse(f"library://{server.host}/e/c/n:1"))
    server.answer = lambda path, headers: (404, {}, b"")
    with pytest.raises(TargetError, match="does not have"):
        resolve(parse(f"library://{server.host}/e/c/n:1"))


def test_files_and_builds_are_in_no_registry() -> None:
    for text in ("/a/b.sif", "build://x"):
        with pytest.raises(InputError, match="is in no registry"):
            resolve(parse(text))


@pytest.mark.parametrize(
    ("host", "answer"),
    [("localhost", True), ("localhost:5000", True), ("127.0.0.1:1", True), ("127.1.2.3", True), ("[::1]:5000", True),
     ("registry.example.org", False), ("10.0.0.1:5000", False), ("localhost.example.org", False)],
)  # fmt: skip
def test_plain_http_is_for_this_machine_only(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_a_library_s_answer_is_that_of_the_digest(server: Server) -> None:
    body = json.dumps({"data": {"hash": "sha256." + "b" * 64, "size": 9}}).encode()
    server.answer = lambda path, headers: (200, {}, body)
    with pytest.raises(TargetError, match="does not match its digest"):
        resolve(parse(f"library://{server.host}/e/c/n:sha256.{'a' * 64}"))


def test_logins_of_netrc_are_not_sent(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """requests would put them in the place of the registry's token."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password hidden\ndefault login any password hidden\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.add("1", "amd64")
    server.answer = with_token(server)  # type: ignore[assignment]
    resolve(parse(f"docker://{server.host}/app:1"))
    assert {seen[1] for seen in server.seen} == {None, "Bearer t1"}


def test_a_login_stays_with_the_registry(server: Server) -> None:
    """Where it redirects to, nobody gets its token, nor its login for asking for one."""
    other = Server()
    other.answer = lambda path, headers: (
        (200, {}, b"{}")
        if path.startswith("/token")
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/token"'}, b"")
    )
    server.answer = lambda path, headers: (307, {"Location": f"http://{other.host}{path}"}, b"")
    with pytest.raises(InputError, match="refuses the login kept for it"):
        resolve(parse(f"docker://{server.host}/app:1"), login=Login("me", "secret"))
    assert other.seen == [("/v2/app/manifests/1", None)]
    other.http.shutdown()


def test_a_redirection_that_leaves_https_is_refused() -> None:
    import requests

    from modak_deploy.images.registry import _session

    before, after = requests.Request("GET", "https://r.example.org/a").prepare(), requests.PreparedRequest()
    after.prepare("GET", "http://r.example.org/a", headers={"Authorization": "Bearer t"})
    response = requests.Response()
    response.request = before
    with pytest.raises(TargetError, match=r"r\.example\.org redirects to 'r\.example\.org' without https"):
        _session().rebuild_auth(after, response)
