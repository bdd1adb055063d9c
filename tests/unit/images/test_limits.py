"""How long the steps of an image folder may take."""

from pathlib import Path

from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.remote import STEP_LIMIT
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport


class Timed(LocalTransport):
    """This machine; each command's limit is written down."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.limits.append(timeout)
        return super().run(command, stdin=stdin, timeout=timeout)


def test_a_step_that_only_looks_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    transport = Timed()
    store = ImageStore(transport, str(tmp_path))
    assert not store.has(f"{tmp_path}/a.sif", "apptainer")
    assert store.hold(f"{tmp_path}/a.sif", "") is None
    assert store.collect(30) == []
    assert transport.limits == [STEP_LIMIT, STEP_LIMIT, None]
