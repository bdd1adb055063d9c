"""An image is on disk before it has its name: after a power loss none of zeros is taken for it."""

import subprocess
from importlib.resources import files
from pathlib import Path

JOBS, IMAGES = (files(f"modak_deploy.{name}") / "sh" for name in ("jobs", "images"))
SYNC = """#!/bin/sh
printf '%s: %s\n' "$*" "$(ls "$IMAGES" | tr '\n' ' ')" >>"$LOG"
exit "$CODE"
"""
STEP = f"""
boundary=x
. {JOBS}/common.sh
. {IMAGES}/store.sh
modak_sync_kind= sync_kind=files images=$IMAGES work=$IMAGES/.work
sum_of() {{ sha256sum "$1"; }}
lock_held() {{ :; }}
store_put "$work/new" a.sif docker://a sha256:0 tool
"""


def put(folder: Path, code: int = 0) -> tuple[subprocess.CompletedProcess[str], Path, str]:
    """Put an image into a folder, with a sync that ends with ``code``; return the folder and what sync has seen."""
    images = folder / "images"
    for path in (folder / "bin", images / ".work", images / ".used"):
        path.mkdir(parents=True)
    (images / ".work" / "new").write_bytes(b"image")
    (folder / "bin" / "sync").write_text(SYNC)
    (folder / "bin" / "sync").chmod(0o755)
    (folder / "log").touch()
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    environment = {"PATH": path, "IMAGES": str(images), "LOG": str(folder / "log"), "CODE": str(code)}
    done = subprocess.run(["/bin/sh", "-c", STEP], env=environment, capture_output=True, text=True, check=False)
    return done, images, (folder / "log").read_text()


def test_the_image_is_synced_before_its_name_and_then_the_folder(tmp_path: Path) -> None:
    done, images, seen = put(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (images / "a.sif").read_bytes() == b"image"
    work = images / ".work"
    assert seen.splitlines() == [f"{work}/new {work}/info: ", f"{images}: a.sif a.sif.info "]


def test_an_image_that_is_not_on_disk_has_no_name(tmp_path: Path) -> None:
    done, images, _ = put(tmp_path, code=1)
    assert (done.returncode, done.stderr) == (1, f"x {images} is full\n")
    assert not list(images.glob("a.sif*"))
