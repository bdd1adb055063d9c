"""A controller whose disk is full: a sentence that names it, and no traceback."""

from pathlib import Path

import pytest

from jobplans import requested
from modak_deploy.errors import InputError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.results.folder import ResultsFolder
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.transport.local import LocalTransport

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def test_an_output_behind_a_link_does_not_fit(hasty: Timeouts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(LocalTransport(), timeouts=hasty)
    line = "echo much >there; ln -s there out"
    present = jobs.present(requested(["sh", "-c", line], tmp_path / "space", outputs=["out"]))
    (result,) = jobs.wait([present])
    monkeypatch.setattr(ResultsFolder, "part", lambda _self: FULL)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        jobs.fetch_results(present.job, result, tmp_path / "results")


def test_an_older_copy_is_no_help_where_it_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").write_bytes(b"x" * 1000)
    with ResultsFolder(tmp_path) as folder:
        with pytest.raises(InputError, match="No space left on device"):
            folder.copy("old", FULL, 10)
        part = folder.part()
        for free, size in ((1500, 0), (2000, 1000)):
            monkeypatch.setattr(folder, "free", lambda free=free: free)
            folder.copy("old", part, 1000)
            assert part.stat().st_size == size
