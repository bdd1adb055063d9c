"""Whatever a registry or a library answers is an image or one clean error, over a real connection."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.credentials import Login
from modak_deploy.images.registry import Resolved, resolve
from modak_deploy.model.reference import parse

CASES = yaml.safe_load((Path(__file__).parents[2] / "data" / "images" / "odd_registry.yaml").read_text())


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry(BaseHTTPRequestHandler):
    """Answers each question as the case says."""

    case: dict[str, Any] = {}

    def do_GET(self) -> None:
        status, headers, body = self._answer()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        length = str(self.case.get("length", len(body))).encode().decode("latin-1")
        self.send_header("Content-Length", length if self._is_odd() else str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _is_odd(self) -> bool:
        part = self.path.split("?")[0]
        if "token" in self.case or "token_raw" in self.case:
            return part == "/token"
        return True

    def _answer(self) -> tuple[int, dict[str, str], bytes]:
        case = self.case
        if self.path.startswith("/v1/"):
            return 200, {}, self._body("library")
        if self.path.startswith("/token"):
            return 200, {}, self._body("token")
        here = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        challenge = case.get("challenge") or (f'Bearer realm="{here}"' if self._needs_token() else None)
        if challenge and "Authorization" not in self.headers:
            return 401, {"WWW-Authenticate": challenge}, b""
        config = json.dumps(case.get("config", {"architecture": "amd64"})).encode()
        if "/blobs/" in self.path:
            return 200, {}, config
        if "raw" in case:
            return case.get("status", 200), case.get("headers", {}), self._body("")
        for key in ("manifest", "index"):
            if key in case:
                return 200, {}, json.dumps(case[key]).encode()
        return 200, {}, json.dumps({"layers": [{"size": 1}], "config": {"digest": digest(config)}}).encode()

    def _needs_token(self) -> bool:
        return "token" in self.case or "token_raw" in self.case

    def _body(self, key: str) -> bytes:
        case = self.case
        raw = case.get(f"{key}_raw" if key else "raw")
        if raw is None:
            return json.dumps(case[key]).replace("@", "a" * 64).encode()
        text = raw.replace("@", "9" * case.get("digits", 0)) * case.get("times", 1)
        return text.encode(case.get("encoding", "utf-8"), "surrogatepass")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def ask() -> Iterator[Any]:
    servers = []

    def asked(case: dict[str, Any]) -> Resolved:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Odd", (Registry,), {"case": case}))
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        scheme, name = ("library", "e/c/n") if "library" in case or "library_raw" in case else ("docker", "app")
        return resolve(parse(f"{scheme}://127.0.0.1:{server.server_port}/{name}:1"), login=Login("me", "secret"))

    yield asked
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_image_or_one_clean_error(case: dict[str, Any], ask: Any) -> None:
    if case.get("ok"):
        assert ask(case).digest.startswith("sha256:")
        return
    with pytest.raises((InputError, TargetError)) as caught:
        ask(case)
    message = str(caught.value)
    assert case.get("words", "") in message
    assert "127.0.0.1:" in message
    assert message.isprintable()
    assert len(message) < 600
    assert "secret" not in message
