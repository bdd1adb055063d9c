"""Jobs whose folder is really there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_parts import Part, make


@pytest.fixture
def job_folder(tmp_path: Path) -> Callable[..., tuple[Path, Part]]:
    """Return a maker of jobs whose folder and script are really there."""

    def maker(scheduler: str = "process", *argv: str, name: str = "job", **more: Any) -> tuple[Path, Part]:
        folder = tmp_path / name
        for part in ("work", "state"):
            (folder / part).mkdir(parents=True)
        made = make(scheduler, argv, directory=str(folder), **more)
        (folder / "job.sh").write_bytes(made.script().encode("utf-8", "surrogateescape"))
        (folder / "job.sh").chmod(0o700)
        return folder, made

    return maker
