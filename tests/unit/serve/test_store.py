"""What the service keeps."""

import os
from pathlib import Path

from modak_deploy.jobmodel.site import Sites
from modak_deploy.serve.store import Store


def test_what_cannot_be_removed_fails_nobodys_request(tmp_path: Path) -> None:
    store = Store(tmp_path, Sites(), lifetime=60)
    old, odd = tmp_path / "files" / "old", tmp_path / "files" / "odd"
    (odd / "inner").mkdir(parents=True)
    old.mkdir()
    (old / "build.sh").touch()
    for folder in (old, odd):
        os.utime(folder, (1, 1))
    (path,) = store.keep({"job.sh": "true\n"}).values()
    assert store.script(*path.split("/")[1:]) is not None
    assert not old.exists()
