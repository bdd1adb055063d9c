"""Large inputs and results: by rsync where both ends have it, by the transport where one has none."""

import os
import shutil
from pathlib import Path

import pytest

from jobplans import Local, requested, source
from modak_deploy.errors import TargetError
from modak_deploy.jobs import files
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.results import transfer
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.transport.rsync import Rsync
from shells import Reached, needs_rsync

pytestmark = needs_rsync


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a file large that is not."""
    monkeypatch.setattr(files, "LARGE", 50_000)
    monkeypatch.setattr(transfer, "LARGE", 50_000)
    monkeypatch.setattr(transfer, "EAGER", 20_000)


@pytest.fixture
def item(tmp_path: Path) -> Local:
    (tmp_path / "input").write_bytes(os.urandom(100_000))
    return source("in/large 'x'", tmp_path / "input")


def life(transport: Reached, hasty: Timeouts, item: Local, folder: Path) -> bytes:
    """Return the result of a job that copies its input."""
    line = "cp in/large* 'o u t'; echo small >small"
    deployed = requested(["sh", "-c", line], folder / "space", sources=(item,), outputs=["o u t", "small"])
    jobs = Jobs(transport, timeouts=hasty)
    present = jobs.present(deployed, [item])
    jobs.fetch_results(present.job, jobs.wait([present])[0], folder / "results")
    assert sorted(path.name for path in Path(present.job.spec.directory, "state").glob("large*")) == []
    assert not list((folder / "results" / "probe").glob(".*"))
    return (folder / "results" / "probe" / "o u t").read_bytes()


def test_both_ends_have_rsync(hasty: Timeouts, item: Local, tmp_path: Path) -> None:
    transport = Reached(tmp_path)
    assert life(transport, hasty, item, tmp_path) == item.local.read_bytes()
    assert (transport.logins, transport.carried) == (2, 0)


def test_older_result_is_made_new(hasty: Timeouts, item: Local, tmp_path: Path) -> None:
    old = tmp_path / "results" / "probe" / "o u t"
    old.parent.mkdir(parents=True)
    old.write_bytes(item.local.read_bytes()[:-5] + b"other")
    assert life(Reached(tmp_path), hasty, item, tmp_path) == item.local.read_bytes()


def test_login_without_rsync(hasty: Timeouts, item: Local, tmp_path: Path) -> None:
    """The steps find rsync and the login does not: it stands in a folder that only one of them looks in."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    transport = Reached(tmp_path, path=str(tmp_path / "bin"))
    assert life(transport, hasty, item, tmp_path) == item.local.read_bytes()
    assert (transport.logins, transport.carried) == (2, 2)


def test_target_without_rsync(hasty: Timeouts, item: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "rsync" and not (tmp_path / "bin" / tool.name).is_symlink():
                (tmp_path / "bin" / tool.name).symlink_to(tool)
    here = shutil.which("rsync")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(shutil, "which", lambda name: here if name == "rsync" else None)
    transport = Reached(tmp_path)
    assert life(transport, hasty, item, tmp_path) == item.local.read_bytes()
    assert (transport.logins, transport.carried) == (0, 2)


def test_controller_without_rsync(
    hasty: Timeouts, item: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "rsync" else which(name))
    transport = Reached(tmp_path)
    assert life(transport, hasty, item, tmp_path) == item.local.read_bytes()
    assert (transport.logins, transport.carried) == (0, 2)


def test_file_that_arrives_damaged(
    hasty: Timeouts, item: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Rsync.put

    def damage(self: Rsync, local: Path, remote: str) -> bool:
        done = put(self, local, remote)
        with Path(remote).open("r+b") as file:
            file.write(b"damage")
        return done

    monkeypatch.setattr(Rsync, "put", damage)
    with pytest.raises(TargetError, match="the file 'in/large 'x'' arrived damaged on the target"):
        life(Reached(tmp_path), hasty, item, tmp_path)
