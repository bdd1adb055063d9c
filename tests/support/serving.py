"""A real inference server of a bundle on loopback, and its clients."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np

WEIGHTS = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
START = 120
"""Seconds within which the server must be ready."""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Server:
    """``modak serve-model`` in a process of its own."""

    def __init__(
        self, bundle: Path, log: Path, *options: str, python: str = sys.executable, name: str = "test"
    ) -> None:
        self.http, self.grpc, self.metrics = free_ports(3)
        self.name = name
        self.log = log
        command = [python, "-m", "modak_deploy.cli", "serve-model", str(bundle), *options]
        for option, port in (("--http-port", self.http), ("--grpc-port", self.grpc), ("--metrics-port", self.metrics)):
            command += [option, str(port)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(os.environ))

    def __enter__(self) -> "Server":
        end = time.monotonic() + START
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server has ended: {self.log.read_text()[-2000:]}")
            with suppress(OSError):
                if self.get(f"/v2/models/{self.name}/ready")[0] == 200:
                    return self
            time.sleep(0.1)
        raise RuntimeError(f"the server is not ready: {self.log.read_text()[-2000:]}")

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, path: str, *, port: int | None = None) -> tuple[int, str]:
        return self.request("GET", path, port=port)

    def post(self, body: object, path: str = "", **headers: str) -> tuple[int, dict]:
        """Return status and answer of an inference request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text = self.request("POST", path or f"/v2/models/{self.name}/infer", data, **headers)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, {"text": text}

    def request(
        self, method: str, path: str, data: bytes | None = None, *, port: int | None = None, **headers: str
    ) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port or self.http}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def tensor(name: str, array, datatype: str = "FP32") -> dict:
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": array.ravel().tolist()}
