"""Fixtures that more than one room's tests share."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import rig
from cluster import Cluster, control, is_up
from sites import user_environment

# How fast this machine is today says nothing about the code.
settings.register_profile("modak", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("modak")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so (POSIX, 2.11), and programs that the tests start would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


LEFT_OUT = Path(__file__).parent / "left-out"
"""Lists of what make check and make test leave out, as scripts/left_out.py writes them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for path in sorted(LEFT_OUT.glob("*.txt")):
        names = frozenset(path.read_text(encoding="utf-8").split())
        for item in items:
            if item.nodeid.partition("[")[0].partition("@")[0] in names:
                item.add_marker(f"left_out_of_{path.stem}")


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what modak remembers out of the home of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        # What tests measure is no measurement of whoever runs them.
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        # Nor does what one test measures decide for the next one.
        patch.setenv("MODAK_FITTING", "manual")
        yield folder / "modak"


@pytest.fixture(scope="session")
def real_slurm() -> Iterator[rig.Rig]:
    """A real Slurm; it is stopped at the end if it was down before, or if it is a worker's own."""
    was_up = subprocess.run([rig.SCRIPT, "status"], capture_output=True).returncode == 0
    yield rig.Rig(Path(rig.ask("up")))
    if not was_up or "PYTEST_XDIST_WORKER" in os.environ:
        subprocess.run([rig.SCRIPT, "down"], check=True, timeout=600)


@pytest.fixture(scope="session")
def keras_python(real_slurm: rig.Rig) -> str:
    """A Python with Keras and TensorFlow that jobs on the real Slurm can run."""
    return rig.ask("python").splitlines()[-1]


@pytest.fixture(scope="session")
def login_torch(real_slurm: rig.Rig) -> Path:
    """A virtual environment in the home on the login node, which takes PyTorch from the tests' own."""
    packages = next((path for path in sys.path if (Path(path) / "torch").is_dir()), None)
    if packages is None:
        pytest.skip("torch is not installed")
    folder = real_slurm.home / "torch"
    python = Path(sys.base_prefix) / "bin" / "python3"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shared = f"{folder}/lib/{version}/site-packages/shared.pth"
    try:
        real_slurm.ssh(f"{python} -m venv --without-pip {folder} && cat >{shared}", packages)
        real_slurm.ssh(f"{folder}/bin/python -c 'import torch'")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the user of the login node cannot run {python} with torch: {error.stderr.strip()}")
    return folder


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster whose hosts share nothing but a network; it is stopped at the end if it was down before."""
    was_up = is_up()
    yield Cluster(Path(control("up")))
    if not was_up:
        control("down")


@pytest.fixture(scope="session")
def collections() -> Path:
    """The folder for ANSIBLE_COLLECTIONS_PATH in which this checkout is the collection modak.deploy."""
    link = rig.TOP / ".collections" / "ansible_collections" / "modak" / "deploy"
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path("../../.."))
    return rig.TOP / ".collections"


@pytest.fixture(scope="session")
def environment(collections: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who has this checkout's library and collection, and no settings of his own."""
    return user_environment(collections, tmp_path_factory.mktemp("ansible"))
