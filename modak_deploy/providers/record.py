"""What the controller keeps of a deployment's instance: its host key, and that its creation was begun.

Nothing depends on it for good: with the record lost the instance is found by its tag, and its host key in its user
data, which only the account that created it can read.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pydantic import ValidationError

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.base import Line, Model, Name
from modak_deploy.model.cloud import ProviderName
from modak_deploy.model.target import Target
from modak_deploy.paths import expanded
from modak_deploy.providers.cloudinit import host_key_in
from modak_deploy.providers.resources import Identity, Listed, Resources
from modak_deploy.state import state_folder
from modak_deploy.util.files import PRIVATE, create_once, write_atomically

_RECORD, _KEY, _KNOWN_HOSTS = "record.json", "host_key", "known_hosts"
_KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-", "sk-ssh-ed25519", "sk-ecdsa-sha2-")


class Record(Model):
    """What was begun for a deployment."""

    identity: Identity
    run: Name
    target: Name
    provider: ProviderName
    region: Line | None = None
    profile: Line | None = None
    begun: float
    """Seconds since 1970 at which the last creation was begun."""


def read_public_key(target: Target) -> str:
    """Return the user's public SSH key, one line; InputError where there is none."""
    cloud = target.cloud
    name = cloud.public_key if cloud is not None else None
    if name is None and target.private_key is not None:
        name = f"{target.private_key}.pub"
    if name is None:
        raise InputError(
            f"{target.name} needs an SSH key to log in to its instance",
            key="target.private_key",
            hint="name the private key file",
        )
    path = expanded(name)
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"the public SSH key cannot be read: {reason}", source=path) from None
    if not text.startswith(_KINDS) or len(text.splitlines()) != 1 or len(text) > 4000 or "PRIVATE" in text:
        raise InputError("not a public SSH key of one line, such as ssh-ed25519 AAAA...", source=path)
    return text


def _folder(identity: Identity) -> Path:
    return state_folder() / "cloud" / identity


def begin(resources: Resources, *, run: str, target: str) -> tuple[str, str]:
    """Record that the instance's creation begins; return its private and public host key.

    The record is on disk, synced, before anybody is asked to create anything.
    """
    folder = _folder(resources.identity)
    key = folder / _KEY
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not key.exists():
            create_once(key, _new_key())
        private = key.read_text(encoding="ascii")
        record = Record(
            identity=resources.identity,
            run=run,
            target=target,
            provider=resources.provider,
            region=resources.region,
            profile=resources.profile,
            begun=time.time(),
        )
        _write(record)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder}: the creation of an instance cannot be recorded: {error}") from None
    return private, _public_of(private, key)


def refuse(identity: Identity) -> None:
    """Record that the provider had no capacity for what was begun: nothing of it can come to be listed later."""
    record = read(identity)
    if record is None:
        return
    try:
        _write(record.model_copy(update={"begun": 0.0}))
    except OSError as error:
        raise InputError(f"{_folder(identity)} cannot be written: {error.strerror}") from None


def _write(record: Record) -> None:
    write_atomically(_folder(record.identity) / _RECORD, record.model_dump_json(indent=2) + "\n", mode=PRIVATE)


def _new_key() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")


def _own_key(path: Path) -> str | None:
    """Return the public part of the recorded host key; None where there is none."""
    try:
        return _public_of(path.read_text(encoding="ascii"), path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"the host key cannot be read: {reason}", source=path) from None


def _public_of(private: str, path: Path) -> str:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(private.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
        raise InputError("not an SSH host key", source=path, hint="undeploy, and deploy again") from None
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def read(identity: Identity) -> Record | None:
    """Return the record of a deployment; None where there is none, or none that can be read."""
    try:
        return Record.model_validate_json((_folder(identity) / _RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def records() -> Iterator[Record]:
    """Yield the records of all deployments that this user has begun and not ended."""
    top = state_folder() / "cloud"
    for folder in sorted(top.iterdir()) if top.is_dir() else []:
        record = read(folder.name)
        if record is not None and record.identity == folder.name:
            yield record


def is_pending(identity: Identity, settle: float) -> bool:
    """Return whether a creation was begun less than ``settle`` seconds ago.

    The EC2 API is eventually consistent: an instance that was created may not be listed at once.
    """
    record = read(identity)
    # A clock that was set back a little meanwhile does not end the wait.
    return record is not None and abs(time.time() - record.begun) < settle


def known_hosts(identity: Identity, instance: Listed) -> Path:
    """Write the file by which ssh checks the instance's host key, and return it.

    The controller's own record of the key counts; where it was lost, the key in the instance's user data.
    TargetError where they differ, or where neither is there.
    """
    folder = _folder(identity)
    key = folder / _KEY
    own = _own_key(key)
    listed = host_key_in(f"ed25519_public: {instance.host_key}") if instance.host_key else None
    if own is not None and listed is not None and own.split()[:2] != listed.split()[:2]:
        raise TargetError(
            f"the instance {instance.id} was created with another host key than the one recorded in {folder}: "
            "another controller created it; undeploy it first, or remove that folder if you trust the account"
        )
    if (host_key := own or listed) is None:
        raise TargetError(
            f"the host key of the instance {instance.id} is not known, and without it nothing is run there"
        )
    path = folder / _KNOWN_HOSTS
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, f"{instance.address} {host_key}\n", mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path


def forget(identity: Identity) -> bool:
    """Remove the record after everything was released; return whether there was one."""
    folder = _folder(identity)
    if not folder.is_dir():
        return False
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be removed: {error.strerror}") from None
    return True
