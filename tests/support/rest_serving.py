"""A running service for the tests of this folder."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="pip install 'modak-deploy[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'modak-deploy[serve]'")

TOP = Path(__file__).parents[2]
DATA = TOP / "tests" / "data" / "jobmodel"
TOKEN = "correct-horse-battery"  # noqa: S105


@dataclass
class Service:
    """A service in a process of its own."""

    port: int
    process: subprocess.Popen[str]
    log: Path

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of an answer; ``body`` is bytes, or what JSON is written of."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, data, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
            reply = connection.getresponse()
            return reply.status, {key.lower(): value for key, value in reply.getheaders()}, reply.read()


@contextlib.contextmanager
def running(folder: Path, *options: str, token: str | None = TOKEN) -> Iterator[Service]:
    """Start a service, and end it by SIGTERM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log"
    environment = {k: v for k, v in os.environ.items() if k != "MODAK_SERVE_TOKEN"}
    environment |= {"PYTHONPATH": str(TOP)} | ({"MODAK_SERVE_TOKEN": token} if token else {})
    words = [sys.executable, "-m", "modak_deploy.cli", "serve", "--folder", str(folder / "kept"), "--port", str(port)]
    with (
        log.open("w") as stream,
        subprocess.Popen([*words, *options], stderr=stream, env=environment, text=True) as process,
    ):
        service = Service(port, process, log)
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    service.ask("GET", "/health")
                    break
                time.sleep(0.05)
            yield service
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the site of the tests, a token and no limit on its rate."""
    with running(tmp_path_factory.mktemp("serve"), "--site", str(DATA / "sites.yaml"), "--rate", "0") as started:
        yield started
