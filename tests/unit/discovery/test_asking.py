"""The discovery's round trip, at once and in a thread."""

import sys
import threading
from pathlib import Path

import pytest

from modak_deploy.discovery.asking import Inquiry, ask, script_for
from modak_deploy.errors import TargetError
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Target
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport

DEPLOYMENT = Deployment(application=Application(name="a", script="a.py"), target=Target(name="here"))


class _Hanging(LocalTransport):
    """This machine, which answers when it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Event()

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.asked.set()
        assert self.may_answer.wait(60)
        return super().run(command, stdin=stdin, timeout=timeout)


def test_inquiry_returns_what_the_same_question_at_once_returns() -> None:
    script = script_for(DEPLOYMENT, sys.executable)
    at_once = ask(LocalTransport(), "echo hello", "here")
    assert Inquiry(LocalTransport(), "echo hello", "here").answer() == at_once == "hello\n"
    assert "@@modak:end" in Inquiry(LocalTransport(), script, "here").answer()


def test_inquiry_leaves_the_caller_free_while_the_target_has_not_answered() -> None:
    transport = _Hanging()
    inquiry = Inquiry(transport, "echo late", "here")
    assert transport.asked.wait(60)  # the target is being asked, and this thread is here
    transport.may_answer.set()
    assert inquiry.answer() == "late\n"


def test_inquiry_raises_the_error_of_the_target_in_the_callers_thread() -> None:
    inquiry = Inquiry(LocalTransport(), "echo broken >&2; exit 3", "here")
    for _ in range(2):
        with pytest.raises(
            TargetError, match="the target here could not be asked about itself; its shell said: broken"
        ):
            inquiry.answer()


def test_of_a_long_complaint_the_two_ends_are_shown() -> None:
    with pytest.raises(TargetError, match=r"its shell said: first y y .* \.\.\. .* y y last$") as caught:
        ask(LocalTransport(), "(echo first; yes | head -n 100000; echo last) >&2; exit 3", "here")
    assert len(str(caught.value)) < 700


def test_script_for_gives_the_controllers_python_to_this_machine_alone(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.touch()
    remote = DEPLOYMENT.model_copy(update={"target": Target(name="there", host="there")})
    assert str(python) in script_for(DEPLOYMENT, str(python))
    assert str(python) not in script_for(remote, str(python))
    (tmp_path / "python3").symlink_to(python)
    assert str(tmp_path / "python3") in script_for(DEPLOYMENT, str(python))
