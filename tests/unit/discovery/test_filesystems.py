"""File systems and MPI types, from captured text and from this machine."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from modak_deploy.discovery import parse_probe, probe_script
from modak_deploy.discovery.filesystems import parse_df, parse_mounts
from modak_deploy.discovery.software import parse_mpi_types
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts, FileSystem, Target
from modak_deploy.optimiser import make_plan
from modak_deploy.transport.local import LocalTransport

PARTS = Path(__file__).parents[2] / "data" / "discovery" / "parts"
MOUNTS = r"""proc /proc proc rw,relatime 0 0
/dev/vda / ext4 rw,relatime,discard 0 0
tmpfs /dev/shm tmpfs rw,relatime,size=24684092k 0 0
10.0.0.1@o2ib:/scratch /lustre/a\040b lustre rw,flock 0 0
systemd-1 /home autofs rw,relatime,fd=40 0 0
server:/export/home /home nfs4 rw,vers=4.2 0 0
"""
HEAD = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "/dev/vda         264212084 38684972  67705940      37% /",
            FileSystem(mount="/", type="ext4", size=264212084 * 1024, free=67705940 * 1024),
        ),
        (
            "server:/export/home 1000 400 600 40% /home",
            FileSystem(mount="/home", type="nfs4", size=1024000, free=614400),
        ),
        (
            "10.0.0.1@o2ib:/scratch 10 10 -2 100% /lustre/a b",
            FileSystem(mount="/lustre/a b", type="lustre", size=10240, free=0),
        ),
        ("a b 0 0 0 - /odd", FileSystem(mount="/odd", size=0, free=0)),
        ("df: /home: Permission denied", None),
        ("", None),
    ],
)
def test_df(line: str, found: FileSystem | None) -> None:
    assert parse_df(f"{HEAD}{line}\n", parse_mounts(MOUNTS)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ((PARTS / "slurm22-srun.txt").read_text(), ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4"]),
        ("srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: openmpi\n", ["none", "openmpi", "pmi2"]),
        ("srun: error: cannot load\nsrun\n", []),
        ("", []),
    ],
)
def test_mpi_types(text: str, found: list[str]) -> None:
    assert parse_mpi_types(text) == found


@pytest.mark.parametrize("workspace", ["~", "~/not/there yet", "{}/a/b", "/"])
def test_this_machine(workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = Target(name="here", workspace=workspace.format(tmp_path))
    done = LocalTransport().run(probe_script(target))
    found = parse_probe(done.stdout, target).file_systems
    assert sorted(found) == ["home", "workspace"]
    for folder, system in zip((tmp_path, Path("/") if workspace == "/" else tmp_path), found.values(), strict=True):
        room = os.statvfs(folder)
        assert system.size == room.f_blocks * room.f_frsize // 1024 * 1024
        assert 0 <= system.free <= system.size
        assert system.type
        assert os.path.ismount(system.mount)


@pytest.mark.parametrize("home", ["", "relative/home"])
def test_home_that_is_no_place(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    target = Target(name="here")
    assert set(parse_probe(LocalTransport().run(probe_script(target), timeout=60).stdout, target).file_systems) <= {
        "workspace"
    }


def test_free_space_makes_no_other_plan() -> None:
    deployment = Deployment(
        application=Application(name="a", type="hpc", executable="true"), target=Target(name="here")
    )
    texts = {
        make_plan(
            deployment,
            Facts(file_systems={"home": FileSystem(mount="/", size=10, free=free)}),
            [],
            now=datetime(2026, 1, 1, tzinfo=UTC),
        ).to_json()
        for free in (1, 2)
    }
    assert len(texts) == 1
