"""What the controller keeps of an instance."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.providers import record
from modak_deploy.providers.aws import Aws
from modak_deploy.providers.resources import Listed, Resources


@pytest.fixture
def resources(cloud_plan: Callable[..., Plan]) -> Resources:
    plan = cloud_plan()
    return Aws().describe(plan, record.read_public_key(plan.target))


def listed(**changes: str | None) -> Listed:
    return Listed.model_validate(
        {"id": "i-1", "type": "c7i.xlarge", "state": "running", "launched": "x", "address": "192.0.2.7", **changes}
    )


def test_a_host_key_is_made_once_for_its_owner_alone(resources: Resources) -> None:
    first = record.begin(resources, run="probe", target="aws")
    assert record.begin(resources, run="probe", target="aws") == first
    folder = record._folder(resources.identity)
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    assert [one.run for one in record.records()] == ["probe"]


def test_ssh_accepts_the_keys(resources: Resources, tmp_path: Path) -> None:
    private, public = record.begin(resources, run="probe", target="aws")
    key = tmp_path / "host_key"
    key.touch(mode=0o600)
    key.write_text(private)
    done = subprocess.run(["ssh-keygen", "-y", "-f", str(key)], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == public.split()


def test_the_listed_key_stands_in_for_a_lost_record(resources: Resources) -> None:
    _, public = record.begin(resources, run="probe", target="aws")
    assert record.known_hosts(resources.identity, listed()).read_text() == f"192.0.2.7 {public}\n"
    assert record.forget(resources.identity)
    assert not record.forget(resources.identity)
    with pytest.raises(TargetError, match="host key of the instance i-1 is not known"):
        record.known_hosts(resources.identity, listed())
    path = record.known_hosts(resources.identity, listed(host_key=public))
    assert path.read_text() == f"192.0.2.7 {public}\n"


def test_another_host_key_is_refused(resources: Resources) -> None:
    record.begin(resources, run="probe", target="aws")
    with pytest.raises(TargetError, match="another host key"):
        record.known_hosts(resources.identity, listed(host_key="ssh-ed25519 " + "A" * 68))


def test_a_creation_is_pending_for_a_while(resources: Resources) -> None:
    assert not record.is_pending(resources.identity, 60)
    record.begin(resources, run="probe", target="aws")
    assert record.is_pending(resources.identity, 60)
    assert not record.is_pending(resources.identity, 0)


def test_a_creation_is_pending_where_the_clock_was_set_back(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.begin(resources, run="probe", target="aws")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 5)
    assert record.is_pending(resources.identity, 60)
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    assert not record.is_pending(resources.identity, 60)


@pytest.mark.parametrize("content", [b"", b"\xff", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", None])
def test_a_damaged_host_key_is_one_sentence(resources: Resources, content: bytes | None) -> None:
    record.begin(resources, run="probe", target="aws")
    key = record._folder(resources.identity) / "host_key"
    key.unlink()
    if content is None:
        key.mkdir()
    else:
        key.write_bytes(content)
    with pytest.raises(InputError, match=r"host_key: (not an SSH host key|the host key cannot be read: )"):
        record.known_hosts(resources.identity, listed())


def test_a_host_key_with_a_passphrase_is_one_sentence(resources: Resources) -> None:
    record.begin(resources, run="probe", target="aws")
    key = record._folder(resources.identity) / "host_key"
    key.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
    with pytest.raises(InputError, match="not an SSH host key"):
        record.known_hosts(resources.identity, listed())


def test_a_record_that_cannot_be_removed_is_one_sentence(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    record.begin(resources, run="probe", target="aws")
    monkeypatch.setattr("shutil.rmtree", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(InputError, match="cannot be removed: Permission denied"):
        record.forget(resources.identity)


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-ed25519 A\nssh-ed25519 B\n", ""])
def test_what_is_no_public_key_goes_nowhere(cloud_plan: Callable[..., Plan], key: Path, text: str) -> None:
    target = cloud_plan().target
    Path(f"{key}.pub").write_text(text)
    with pytest.raises(InputError, match="not a public SSH key"):
        record.read_public_key(target)
    Path(f"{key}.pub").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        record.read_public_key(target)
