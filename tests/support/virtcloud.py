"""The rig's libvirt, its domains and volumes as virsh lists them, and a user who deploys there."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cloud as clouds
import stackcloud

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("MODAK_BUILD_DIR") or ROOT / ".build")
CACHE = Path(os.environ.get("MODAK_LIBVIRT_CACHE") or "/var/tmp/modak-libvirt")
IMAGE = "debian-12.qcow2"
_OWN = re.compile(r"modak-[0-9a-f]{16}")


@dataclass
class Host:
    """A host with libvirt."""

    rig: Path

    @property
    def uri(self) -> str:
        """Its connection URI."""
        return f"qemu:///system?socket={self.rig}/sock/libvirt-sock"

    def virsh(self, *arguments: str) -> str:
        """Return what virsh prints."""
        done = subprocess.run(["virsh", "-q", "-c", self.uri, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def domains(self) -> dict[str, str]:
        """Return the states of all domains by name."""
        rows = [line.split(maxsplit=2) for line in self.virsh("list", "--all").splitlines()]
        return {name: state.strip() for _, name, state in rows}

    def volumes(self) -> list[str]:
        """Return the names of the files in the pool, whether libvirt lists them or not, without the machine image."""
        return sorted(path.name for path in (self.rig / "images").iterdir() if path.name != IMAGE)

    def is_empty(self) -> bool:
        """Return whether nothing is there: no domain, and no volume but the machine image."""
        return not self.domains() and not self.volumes()

    def clear(self) -> None:
        """Delete what a test that failed has left."""
        for name, state in self.domains().items():
            if state != "shut off":
                self.virsh("destroy", name)
        for name in self.domains():  # without those that are gone once they are stopped
            self.virsh("undefine", name)
        for name in self.volumes():
            (self.rig / "images" / name).unlink()
        self.virsh("pool-refresh", "images")


def rig() -> Path:
    """Return the folder of the rig that is up; skip where there is none."""
    mark = BUILD / "libvirt.folder"
    folder = Path(mark.read_text().strip()) if mark.exists() else None
    if folder is None or not (folder / "ready").exists():
        pytest.skip("there is no libvirt; run tests/real/libvirt.sh up")
    return folder


@contextmanager
def running() -> Iterator[Host]:
    """Put this thread, and what it starts, into the rig's network, and clear the host at the end."""
    folder = rig()
    with stackcloud.its_network(folder):
        host = Host(folder)
        try:
            yield host
        finally:
            host.clear()


@dataclass
class Controller(clouds.Controller):
    """A user with a document, a key and a state folder."""

    def environment(self) -> dict[str, str]:
        """Return the environment; libvirt needs no credentials, its socket lets root in."""
        kept = {k: v for k, v in super().environment().items() if not k.startswith(("AWS_", "LIBVIRT_"))}
        collections = f"{ROOT / '.collections'}{os.pathsep}{CACHE / 'venv' / 'collections'}"
        # Messages in the user's language are to make no difference.
        return {**kept, "ANSIBLE_COLLECTIONS_PATH": collections, "LANGUAGE": "de", "LC_ALL": "C.UTF-8"}

    def write(self, document: dict[str, Any]) -> None:
        """Write the document, the inventory, the instance types and, once, the key."""
        super().write(document)
        python = CACHE / "venv" / "bin" / "python"
        (self.folder / "hosts").write_text(f"localhost ansible_connection=local ansible_python_interpreter={python}\n")
        (self.folder / "instances-lab.yaml").write_text(TYPES)

    def run(self, playbook: str, *arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a playbook to its end."""
        return subprocess.run(
            self.command(playbook, *arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def command(self, playbook: str, *arguments: str) -> list[str]:
        """Return the command of a playbook; an emulated guest takes its time."""
        return super().command(playbook, "-e", "cloud_timeout=800", *arguments)

    def describe(self, host: Host, **cloud: Any) -> None:
        """Write a document with these changes in ``target.cloud``."""
        described = {
            "provider": "libvirt",
            "region": "lab",
            "profile": host.uri,
            "machine_image": IMAGE,
            "vpc": "inside",
            "pool": "images",
            "emulation": True,
            "instance_types": ["lab.small"],
            **cloud,
        }
        document = clouds.probe(self.folder, "lab", described)
        document["target"]["user"] = "debian"  # cloud-init's default user in Debian
        self.write({**document, "request": {"catalogue": ["instances-lab.yaml"]}})


TYPES = "version: 1\ninstances:\n" + "".join(
    f"  - {{name: {name}, provider: libvirt, vcpus: {cores}, memory: {memory}, disk: {disk},\n"
    f"     microarchitecture: x86_64_v2,\n"
    f'     prices: [{{region: lab, hourly: {price}, currency: EUR, date: "2026-01-01", source: the test}}]}}\n'
    for name, cores, memory, disk, price in (
        ("lab.small", 1, "512M", "2G", 0),
        ("lab.large", 2, "768M", "4G", 0.2),
        ("lab.vast", 2, "4000G", "2G", 0.1),
        ("lab.broad", 2, "512M", "90T", 0.1),
    )
)
"""lab.vast has more memory than the host, lab.broad more disk than the pool."""
