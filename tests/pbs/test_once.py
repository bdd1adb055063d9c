"""Exactly one job: lost replies of qsub, a qsub that is killed, a server that goes away."""

import threading
import time
from pathlib import Path

import pytest

from modak_deploy.errors import JobError, ModakError
from modak_deploy.model.job import JobResult
from pbs import Site

# The program counts its executions itself, outside of the job's folder.
COUNTED = 'echo ran >>"$COUNT"; sleep 1'


def counted(site: Site) -> tuple[dict[str, dict[str, str]], Path]:
    file = site.workspace / "count"
    return {"environment": {"COUNT": str(file)}}, file


@pytest.mark.parametrize(
    "qsub",
    [
        pytest.param('"$real" "$@" >/dev/null; kill -KILL $$', id="killed-after"),
        pytest.param('"$real" "$@" >/dev/null; kill -TERM $$', id="ended-after"),
        pytest.param('[ -e /tmp/tried ] && exec "$real" "$@"; : >/tmp/tried; kill -KILL $$', id="killed-before"),
        pytest.param('"$real" "$@" >/dev/null; echo "qsub: End of File" >&2; exit 1', id="no-reply"),
        pytest.param('"$real" "$@" >/dev/null', id="says-nothing"),
    ],
)
def test_lost_reply(site: Site, qsub: str) -> None:
    job, count = counted(site)
    with site.instead("qsub", qsub):
        present = site.submit(COUNTED, job=job)
    site.root("rm -f /tmp/tried")
    assert site.wait(present).state == "completed"
    time.sleep(2)
    assert count.read_text() == "ran\n"


def test_server_away_while_the_job_runs(site: Site) -> None:
    job, count = counted(site)
    present = site.submit(f"{COUNTED}; echo >started; sleep 8", job=job)
    site.until_started(present)
    with site.without_server():
        time.sleep(3)
    result = site.wait(present)
    assert result.state == "completed", result.reason
    assert count.read_text() == "ran\n"


def test_server_away_at_submission(site: Site) -> None:
    job, count = counted(site)
    ended: list[JobResult | ModakError] = []

    def submit() -> None:
        try:
            ended.append(site.end(COUNTED, job=job))
        except ModakError as error:
            ended.append(error)

    with site.without_server():
        thread = threading.Thread(target=submit)
        thread.start()
        time.sleep(6)
        assert not ended
    thread.join(120)
    assert len(ended) == 1, site.notes.notices
    assert isinstance(ended[0], JobResult), ended[0]
    assert ended[0].state == "completed", ended[0].reason
    assert count.read_text() == "ran\n"


def test_refused_in_the_schedulers_words(site: Site) -> None:
    with pytest.raises(JobError, match=r"(?i)queue is not enabled"):
        site.submit("true", job={"partition": "closed"})
