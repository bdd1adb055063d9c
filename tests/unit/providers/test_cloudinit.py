"""User data: read back by a YAML parser, and the lease carried out by real shells."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from modak_deploy.providers.cloudinit import host_key_in, lease_script, user_data

PUBLIC = "ssh-ed25519 " + "A" * 68


def test_user_data_holds_keys_lease_and_runtime() -> None:
    text = user_data(
        public_key="ssh-ed25519 BBBB me",
        host_key="PRIVATE\nKEY\n",
        host_public_key=PUBLIC,
        lease=900,
        packages=["podman"],
    )
    assert text.startswith("#cloud-config\n")
    content = yaml.safe_load(text)
    assert content["ssh_keys"] == {"ed25519_private": "PRIVATE\nKEY\n", "ed25519_public": PUBLIC}
    assert content["ssh_authorized_keys"] == ["ssh-ed25519 BBBB me"]
    assert content["ssh_pwauth"] is False
    assert content["runcmd"][1][-1] == "modak-lease.service"
    assert "podman" in content["runcmd"][2][-1]
    assert host_key_in(text) == PUBLIC
    assert len(text) < 16384  # "User data is limited to 16 KB, in raw form": EC2 User Guide


@pytest.mark.parametrize("text", ["", "ed25519_public: ", "ed25519_public: ssh-rsa AAAA", PUBLIC])
def test_no_host_key_is_read_from_elsewhere(text: str) -> None:
    assert host_key_in(text) is None


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("ended", [False, True])
def test_the_lease_ends_the_instance(tmp_path: Path, shell: str, ended: bool) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    record = tmp_path / "record"
    if ended:
        record.write_text(f"{int(time.time()) - 5}\n")
    command = [shell, "sh"] if shell == "busybox" else [shell]
    environment = {"MODAK_LEASE_RECORD": str(record), "MODAK_LEASE_END": "echo the end", "PATH": "/usr/bin:/bin"}
    seconds = 3600 if ended else 1
    done = subprocess.run(
        [*command, "-c", lease_script(seconds)], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "the end\n"
    assert int(record.read_text()) <= time.time()
