"""The output of a job that is followed: all of it, however much comes at once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import TargetError
from modak_deploy.jobs import output
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from transports import Notes

TEXT = "".join(f"line {number}, ü\n" for number in range(40_000))
COMPLETED = "state=completed\ncode=0\n"


class Deaf(LocalTransport):
    """Answers no question for the rest of an output."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if f"head -c {output.PIECE}" in command:
            raise TargetError("the network is down")
        return super().run(command, stdin=stdin, timeout=timeout)


@pytest.fixture
def follow(queue: FakeQueue, hasty: Timeouts, tmp_path: Path) -> Callable[..., Notes]:
    """Return what follows a job that writes ``texts``, each while it runs but the last, and has ended then."""

    def followed(*texts: str, transport: LocalTransport | None = None) -> Notes:
        notes, left = Notes(), list(texts)
        jobs = Jobs(transport or LocalTransport(), scheduler=queue, reporter=notes)
        present = jobs.present(requested(["true"], tmp_path / "space", scheduler="slurm"))

        def go_on(_seconds: float) -> None:
            if left:
                with Path(present.job.spec.output).open("a") as file:
                    file.write(left.pop(0))
            queue.become(present.job.id, *(["running"] if left else ["completed", COMPLETED]))

        jobs._timeouts = replace(hasty, sleep=go_on)
        jobs.wait([present], follow=1)
        return notes

    return followed


def test_what_a_job_writes_at_its_end_is_shown_to_the_last_line(follow: Callable[..., Notes]) -> None:
    assert follow(TEXT).text == TEXT


def test_a_job_that_writes_much_is_kept_up_with(follow: Callable[..., Notes]) -> None:
    half = len(TEXT) // 2
    assert follow(TEXT[:half], TEXT[half:]).text == TEXT


def test_a_piece_ends_with_a_line_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "it's a log"
    file.write_text("one\nünlike\nlong long long\nend")
    monkeypatch.setattr(output, "PIECE", 9)
    pieces = list(output.rest(LocalTransport(), str(file), 5))
    assert pieces == ["ünlike\n", "long long", " long\nend"]
    assert list(output.rest(LocalTransport(), str(tmp_path / "absent"), 1)) == []


def test_a_rest_that_cannot_be_had_is_said(follow: Callable[..., Notes]) -> None:
    notes = follow(TEXT, transport=Deaf())
    assert TEXT.startswith(notes.text)
    assert "the rest of the output is not shown: the network is down" in notes.notices
