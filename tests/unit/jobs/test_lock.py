"""The lock of submissions and images, in every shell, with flock(1) and without it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_parts import shells
from scriptruns import wait_for

STEPS = Path(__file__).parents[3] / "modak_deploy" / "jobs" / "sh"
TOOLS = "cat id ln ls mkdir readlink rm sleep tr uname wc unshare mount"
HEAD = "boundary=--test\n" + "".join((STEPS / f"{name}.sh").read_text() for name in ("common", "lock"))
TRY = 'lock_open "$1"; if lock_try; then echo taken; lock_drop; else echo busy; fi'
HOLD = 'lock_open "$1"; lock_try || exit 9; echo taken >"$1.taken"; '
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=[True, False], ids=["flock", "no flock"])
def flock(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        if shutil.which("flock") is None:
            pytest.skip("flock is not installed")
    else:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in TOOLS.split():
            if found := shutil.which(name):
                (folder / name).symlink_to(found)
        monkeypatch.setenv("PATH", str(folder))
    return bool(request.param)


@pytest.fixture(params=shells(), ids=" ".join)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Start a script with the lock's functions in a shell; what it started ends with the test."""
    started: list[subprocess.Popen[str]] = []
    words = [shutil.which(request.param[0]) or request.param[0], *request.param[1:]]

    def start(script: str, lock: Path, *before: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*before, *words, "-c", HEAD + script, "sh", str(lock)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, **variables},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def hold(run: Run, lock: Path, script: str = "sleep 60", *before: str) -> subprocess.Popen[str]:
    """Start an owner, and return once it has the lock."""
    owner = run(HOLD + script, lock, *before)
    wait_for(lambda: lock.with_suffix(".taken").exists() or owner.poll() is not None)
    assert owner.poll() is None, owner.communicate()[0]
    return owner


def told(run: Run, lock: Path, *before: str, **variables: str) -> str:
    return run(TRY, lock, *before, **variables).communicate(timeout=60)[0].strip()


def kill_shell(owner: subprocess.Popen[str]) -> None:
    """Kill the owner alone, and not what it has started."""
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()


def test_it_is_given_back(run: Run, flock: bool, lock: Path) -> None:
    assert [told(run, lock) for _ in range(12)] == ["taken"] * 12
    assert sorted(int(path.name) for path in lock.iterdir() if path.is_symlink()) == list(range(5, 13))


def test_a_living_owner_keeps_it(run: Run, flock: bool, lock: Path) -> None:
    hold(run, lock)
    assert told(run, lock) == "busy"


def test_a_killed_owner_loses_it_at_once(run: Run, flock: bool, lock: Path) -> None:
    # 'exec' leaves nothing of it running but the sign of life, which ends by itself.
    kill_shell(hold(run, lock, "exec sleep 60"))
    assert told(run, lock) == "taken"


@pytest.mark.parametrize("known", [True, False], ids=["known", "not yet known"])
def test_it_stays_with_what_a_killed_owner_has_started(run: Run, flock: bool, lock: Path, known: bool) -> None:
    tell = "lock_child $child;" if known else ""
    owner = hold(run, lock, f'lock_child; sleep 60 & child=$!; {tell} echo $child >"$1.started"; wait "$child"')
    wait_for(lambda: lock.with_suffix(".started").exists())
    kill_shell(owner)
    assert told(run, lock) == "busy"
    os.killpg(owner.pid, signal.SIGKILL)
    if known or flock:
        wait_for(lambda: told(run, lock) == "taken")
    else:
        assert told(run, lock) == "busy"  # Nobody knows whether there was a process.


@pytest.mark.parametrize("kind", ["flock", "none"])
def test_a_process_id_in_use_again_blocks_nobody(run: Run, flock: bool, lock: Path, kind: str) -> None:
    """The link names this machine, this namespace and this user, and a process that started at another time."""
    owner = run('lock_whoami; echo "$lock_boot:$lock_space"', lock).communicate()[0].strip()
    lock.mkdir()
    (lock / "1").symlink_to(f"{owner}:{os.getpid()}.1:{kind}")
    # Whether what it had started lives is the kernel's to say where it had flock, and that cannot be asked without.
    assert told(run, lock) == ("busy" if kind == "flock" and not flock else "taken")


def test_an_owner_elsewhere_that_is_silent_loses_it(run: Run, flock: bool, lock: Path) -> None:
    lock.mkdir()
    (lock / "1").symlink_to("0123-4567:4026531836:1000:4711.1234:flock")
    assert told(run, lock) == "busy"
    began = time.monotonic()
    taker = run('lock_take "$1"; echo taken', lock, MODAK_LOCK_PATIENCE="2")
    assert taker.communicate(timeout=60)[0].strip() == "taken"
    assert time.monotonic() - began > 2


def test_an_owner_elsewhere_that_gives_signs_of_life_keeps_it(run: Run, flock: bool, lock: Path) -> None:
    lock.mkdir()
    (lock / "1").symlink_to("0123-4567:4026531836:1000:4711.1234:flock")
    taker = run('lock_take "$1"; echo taken', lock, MODAK_LOCK_PATIENCE="3")
    for _ in range(10):
        with (lock / "1.alive").open("a") as alive:
            alive.write("\n")
        time.sleep(0.5)
    assert taker.poll() is None
    (lock / "1.free").touch()
    assert taker.communicate(timeout=60)[0].strip() == "taken"


def test_of_many_at_once_one_has_it(run: Run, flock: bool, lock: Path, tmp_path: Path) -> None:
    """Each adds a line when it has the lock and takes it away again: nobody may see another's."""
    inside = tmp_path / "inside"
    script = 'lock_take "$1"; cat "{0}" 2>/dev/null && exit 3; echo here >"{0}"; sleep 0.05; rm "{0}"; lock_drop'
    takers = [run(script.format(inside), lock) for _ in range(6)]
    assert [taker.communicate(timeout=60)[0] for taker in takers] == [""] * 6
    assert [taker.returncode for taker in takers] == [0] * 6


def test_an_owner_that_was_followed_sees_it(run: Run, flock: bool, lock: Path) -> None:
    script = 'lock_held && echo held; ln -s someone "$1/2"; lock_held || echo followed'
    owner = run(HOLD + script, lock)
    assert owner.communicate(timeout=60)[0].split() == ["held", "followed"]


@needs_root
def test_an_owner_in_another_pid_namespace_keeps_it(run: Run, flock: bool, lock: Path) -> None:
    """Containers that share a home have one host name, and process ids that mean nothing to each other."""
    apart = ("unshare", "--pid", "--fork", "--mount-proc")
    owner = hold(run, lock, "sleep 60", *apart)
    assert [told(run, lock), told(run, lock, *apart)] == ["busy", "busy"]
    os.killpg(owner.pid, signal.SIGKILL)  # the namespace ends with unshare's child
    if flock:
        wait_for(lambda: told(run, lock, *apart) == "taken")


def test_a_folder_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = told(run, tmp_path / "file" / "lock")
    assert said == f"--test the folder {tmp_path}/file/lock cannot be made: Not a directory"
