"""Builds without enough space, and what builds and pulls leave that are killed by SIGKILL."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.catalogue.recipe import Recipes
from modak_deploy.catalogue.recipefiles import DATA
from modak_deploy.errors import JobError
from modak_deploy.images import build as building
from modak_deploy.images.build import make_build, run_build
from modak_deploy.images.pin import definition_for
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.target import Polling, Target
from modak_deploy.shell import quote

STEPS = Path("modak_deploy/images/sh"), Path("modak_deploy/jobs/sh")


@pytest.fixture
def small_disk(parts: Containers) -> Iterator[Path]:
    """An image folder on a file system of 30 MB."""
    folder = parts.folder("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m,mode=777", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("known", [True, False])
def test_a_build_without_space_says_so(
    parts: Containers, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """It is seen before (known), or when the tool has filled the disk."""
    if not known:
        monkeypatch.setattr(building, "_ROOM", 0)
    (tmp_path / "recipes.yaml").write_text("version: 1\nrecipes: [{entry: quick, packages: [python3-minimal]}]\n")
    origin = f"docker://{parts.registry}/library/debian:12"
    quick = ImageEntry(name="quick", source="base", origin=origin, distribution="debian12", python="3.11.2")
    workspace = parts.folder("without-space")
    target = Target(
        name="here", workspace=str(workspace), images=str(small_disk), polling=Polling(first=0.5, maximum=1.0)
    )
    definition = definition_for("quick", {"quick": quick}, recipes=Recipes([DATA, tmp_path]))
    jobs = Jobs(UserTransport(parts), timeouts=Timeouts(settle=2.0))
    says = r"has \d+ MB free, and \d+ MB are needed" if known else "no space left for it: .*no space left"
    with pytest.raises(JobError, match=rf"the image 'quick' was not built: .*{says}"):
        run_build(make_build(definition, target, tmp_path / "context", compression="lz4"), jobs, tmp_path / "logs")
    assert not list(small_disk.glob("*.sif"))
    assert not list((small_disk / ".work").iterdir())


def start_work(parts: Containers, images: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start what a build or pull begins with, as the user, and return it with its folder."""
    images_sh, jobs_sh = STEPS
    texts = [jobs_sh / "common.sh", *(images_sh / f"{name}.sh" for name in ("lock", "work", "watch", "store"))]
    texts = [path if path.exists() else jobs_sh / path.name for path in texts]
    script = "boundary=modak:\n" + "\n".join(path.read_text() for path in texts)
    script += f'\nstore_open {quote(str(images))}\nstore_work\nmkdir "$work/tree"\n'
    script += 'head -c 300000 /dev/urandom >"$work/tree/a"\n'
    script += 'chmod 500 "$work/tree"\necho "$$ $work"\nsleep 300\n'
    process = subprocess.Popen(parts.command("/bin/sh", "-c", script), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, _, work = process.stdout.readline().strip().partition(" ")
    process.pid_inside = int(pid)  # type: ignore[attr-defined]
    return process, Path(work)


def test_what_a_killed_build_left_is_listed_and_removed_and_a_live_one_s_is_kept(
    parts: Containers, store: ImageStore, images: Path
) -> None:
    dead, left = start_work(parts, images)
    alive, used = start_work(parts, images)
    try:
        assert {(row.file, row.removed) for row in store.collect(0, dry=True)} == {
            (f".work/{left.name}", False), (f".work/{used.name}", False),
        }  # fmt: skip
        os.kill(dead.pid_inside, signal.SIGKILL)  # type: ignore[attr-defined]
        dead.wait(timeout=30)
        time.sleep(0.5)
        assert left.exists()
        said = store.collect(0, dry=True)
        assert [(row.file, row.reason) for row in said if row.removed] == [
            (f".work/{left.name}", "left by a build or pull that was killed")
        ]
        assert sum(row.size for row in said if row.removed) >= 300_000
        assert left.exists()
        rows = {row.file: row for row in store.collect(0)}
        assert rows[f".work/{left.name}"].removed
        assert not left.exists()
        assert not rows[f".work/{used.name}"].removed
        assert "a build or pull on" in rows[f".work/{used.name}"].reason
        assert used.exists()
    finally:
        os.kill(alive.pid_inside, signal.SIGTERM)  # type: ignore[attr-defined]
        alive.wait(timeout=330)


def test_what_another_machine_left_is_removed_only_after_ten_quiet_minutes(
    parts: Containers, store: ImageStore, images: Path
) -> None:
    store.collect(0)
    for name, boot in (("fresh", "other"), ("stale", "other"), ("ours", "other")):
        folder = images / ".work" / name
        folder.mkdir()
        (folder / ".owner").write_text(f"{boot}-boot 4026531836 1 5 node7\n")
        (folder / ".alive").write_text("\n")
    old = time.time() - 3600
    for path in (images / ".work" / "stale" / ".owner", images / ".work" / "stale" / ".alive"):
        os.utime(path, (old, old))
    nameless = images / ".work" / "nameless"
    nameless.mkdir()
    parts.own(images)
    rows = {row.file: row for row in store.collect(0)}
    assert {name for name, row in rows.items() if row.removed} == {".work/stale"}
    assert "on node7" in rows[".work/fresh"].reason
    assert "on unknown" in rows[".work/nameless"].reason
