"""Servers that do not answer, to paramiko."""

import threading
from typing import Any

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.transport.paramiko_ssh import ParamikoTransport

paramiko = pytest.importorskip("paramiko")


class Silent:
    """A channel to a server that does not answer one kind of request until the channel is closed."""

    def __init__(self, request: str) -> None:
        self._request, self._closed = request, threading.Event()

    def _ask(self, request: str) -> bool:
        return request != self._request or not self._closed.wait(5)

    def exec_command(self, command: str) -> None:
        if not self._ask("exec_command"):
            raise paramiko.SSHException("Channel closed.")

    def recv(self, size: int) -> bytes:
        self._ask("recv")
        return b""

    def recv_stderr(self, size: int) -> bytes:
        self._ask("recv_stderr")
        return b""

    def shutdown_write(self) -> None:
        self._ask("shutdown_write")

    def recv_exit_status(self) -> int:
        return 0 if self._ask("recv_exit_status") and not self._closed.is_set() else -1

    def close(self) -> None:
        self._closed.set()


def run(channel: Silent, monkeypatch: pytest.MonkeyPatch, timeout: float | None) -> Any:
    transport = ParamikoTransport("host")
    monkeypatch.setattr(transport, "_open_channel", lambda: channel)
    return transport.run("true", timeout=timeout)


@pytest.mark.parametrize("unanswered", ["exec_command", "recv", "recv_stderr", "shutdown_write", "recv_exit_status"])
def test_no_request_is_waited_for_beyond_the_limit(unanswered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match=r"host did not answer within 0\.2 s"):
        run(Silent(unanswered), monkeypatch, 0.2)


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_a_command_that_ends_in_time(timeout: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(Silent("none"), monkeypatch, timeout).returncode == 0
