"""The image folder: shared by users, read-only for some, tidied up while jobs need what lies there."""

import os
import pwd
import time
from pathlib import Path

from containers import Containers, UserTransport
from modak_deploy.images.store import ImageStore
from modak_deploy.model.plan import Image
from modak_deploy.shell import join
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport


def test_an_image_in_a_read_only_folder_is_used(store: ImageStore, artefact: Image, there: Path) -> None:
    there.parent.chmod(0o555)
    assert not store.pull(artefact, "apptainer", holder="/somebody/s/run").pulled
    assert store.check(artefact, "apptainer").path == str(there)


def test_a_folder_of_a_group_is_shared_by_its_members(
    parts: Containers, store: ImageStore, images: Path, artefact: Image
) -> None:
    """Another member takes what the first one pulled, says that he needs it, and tidies up."""
    images.chmod(0o2775)
    path = Path(store.pull(artefact, "apptainer", holder="/first/s/run").path)
    member = ImageStore(Member(parts), str(images))
    run = parts.folder("second-s-run")
    (run / "state").mkdir()
    assert not member.pull(artefact, "apptainer", holder=str(run)).pulled
    assert member.check(artefact, "apptainer").path == str(path)
    assert [row.reason for row in store.collect(0)] == [f"needed by {run}"]
    (run / "state" / "exit").touch()
    assert [row.removed for row in member.collect(0)] == [True]
    assert member.pull(artefact, "apptainer").pulled
    assert [row.removed for row in store.collect(0)] == [True]


class Member(UserTransport):
    """Another user, who belongs to the first one's group and has the same cautious umask as he."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        group = pwd.getpwnam(self.parts.user).pw_gid
        become = ["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups", "env", "HOME=/nonexistent"]
        line = [*become, f"PATH={self.parts.apptainer}:{os.environ['PATH']}", "/bin/sh", "-c", f"umask 022; {command}"]
        return LocalTransport.run(self, join(line), stdin=stdin, timeout=timeout)


class TestCollect:
    """Removing what nobody needs."""

    def test_what_was_used_of_late_stays(self, store: ImageStore, there: Path) -> None:
        [row] = store.collect(30)
        assert (row.removed, row.reason) == (False, "used within 30 days")
        assert there.exists()

    def test_what_a_queued_job_needs_stays(
        self, parts: Containers, store: ImageStore, artefact: Image, there: Path
    ) -> None:
        run = parts.folder("runs-queued")
        (run / "state").mkdir()
        parts.own(run)
        store.pull(artefact, "apptainer", holder=str(run))
        [row] = store.collect(0)
        assert (row.removed, row.reason) == (False, f"needed by {run}")
        (run / "state" / "exit").touch()
        [row] = store.collect(0, dry=True)
        assert row.removed
        assert there.exists()
        [row] = store.collect(0)
        assert row.removed
        assert row.size > 1_000_000
        assert not list(there.parent.glob("*.sif*"))
        assert store.pull(artefact, "apptainer").pulled

    def test_what_was_not_used_for_long_goes(self, parts: Containers, store: ImageStore, there: Path) -> None:
        os.utime(there.parent / ".used" / there.name, (time.time() - 40 * 86400,) * 2)
        leftover = there.parent / ".work" / "leftover"
        leftover.mkdir()
        parts.own(leftover)
        os.utime(leftover, (time.time() - 3 * 86400,) * 2)
        assert {row.file: row.removed for row in store.collect(30)} == {there.name: True, ".work/leftover": True}
        assert not there.exists()
        assert not leftover.exists()

    def test_what_modak_did_not_bring_is_left_alone(self, parts: Containers, store: ImageStore, images: Path) -> None:
        (images / "my own.sif").touch()
        assert [(row.removed, row.reason) for row in store.collect(0)] == [(False, "modak did not bring it")]
        assert (images / "my own.sif").exists()

    def test_an_empty_or_missing_folder_is_no_error(self, parts: Containers, images: Path) -> None:
        assert ImageStore(UserTransport(parts), str(images)).collect(1) == []
        assert ImageStore(UserTransport(parts), str(images / "none")).collect(1) == []
