"""What the controller keeps for its user alone."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.kept import kept_plan
from modak_deploy.state import is_own, keyed_hash, remember, state_folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "modak"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_key_is_made_once_and_is_private(folder: Path) -> None:
    first = keyed_hash("TOKEN", "value")
    assert keyed_hash("TOKEN", "value") == first
    assert len({first, keyed_hash("TOKEN", "other"), keyed_hash("OTHER", "value"), keyed_hash("TOKENv", "alue")}) == 4
    assert (mode(folder), mode(folder / "secret.key")) == (0o700, 0o600)
    (folder / "secret.key").unlink()
    assert keyed_hash("TOKEN", "value") != first


def test_controllers_that_start_together_use_one_key(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: keyed_hash("a", "b"), range(40)))) == 1
    assert [path.name for path in folder.iterdir()] == ["secret.key"]


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    keyed_hash("a", "b")
    (folder / "secret.key").chmod(0o644)
    with pytest.raises(InputError, match=r"secret\.key is open to other users; run: chmod go-rwx"):
        keyed_hash("a", "b")
    (folder / "secret.key").chmod(0o600)
    (folder / "secret.key").write_text("abc")
    with pytest.raises(InputError, match=r"not a key of 64 hexadecimal digits"):
        keyed_hash("a", "b")
    folder.chmod(0o777)
    with pytest.raises(InputError, match=r"modak is open to other users"):
        state_folder()


def test_what_was_written_is_told_from_what_was_changed(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert is_own(file, "text") is None
    remember(file, "text")
    assert is_own(file, "text") is True
    assert is_own(file, "texts") is False
    assert is_own(tmp_path / "other.json", "text") is None


def test_a_pipe_in_place_of_a_plan_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "plan.json")
    with pytest.raises(InputError, match=r"plan\.json: this is not a file; remove it"):
        kept_plan(tmp_path, "run")
