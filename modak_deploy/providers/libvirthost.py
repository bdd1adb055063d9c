"""What a host with libvirt has for an instance: network, memory, processors, storage pool, machine image."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from modak_deploy.errors import InputError, TargetError
from modak_deploy.providers.domains import Domain, volume_format
from modak_deploy.providers.lists import rows
from modak_deploy.providers.resources import Instance
from modak_deploy.terminal import excerpt

_FORMATS: Mapping[str, str] = {".qcow2": "qcow2", ".raw": "raw"}
_FILE_POOLS = frozenset({"dir", "fs", "netfs"})
_MOST = 10_000


@dataclass(frozen=True)
class Image:
    """The machine image as the host has it."""

    path: str
    format: str
    size: int
    """Bytes that it shows a guest; 0 where it lies in no pool that was listed."""


def check_network(raw: Mapping[str, Any], instance: Instance) -> None:
    """Raise InputError where the network is not there, or would never give the instance an address."""
    network, key = raw.get("network"), "target.cloud.vpc"
    if not isinstance(network, dict) or not network:
        reason = raw.get("network_fault")
        text = excerpt(reason) if isinstance(reason, str) and reason else "not found"
        raise InputError(f"the network '{instance.vpc}' of libvirt cannot be used: {text}", key=key)
    if network.get("state") != "active":
        raise InputError(
            f"the network '{instance.vpc}' of libvirt is not active", key=key, hint="start it with virsh net-start"
        )


def check_host(raw: Mapping[str, Any], instance: Instance, domains: list[Domain]) -> None:
    """Raise TargetError where the host lacks processors, or memory besides that of the domains that run there."""
    node = raw.get("node")
    memory, processors = (_number(node, key) for key in ("phymemory", "cpus"))
    free = memory * 1024**2 - sum(domain.memory for domain in domains if domain.active)
    if (instance.memory or 0) > free:
        raise TargetError(
            f"the host has no room for it: {instance.type} has {instance.memory} bytes of memory, and the "
            f"domains that run leave {max(free, 0)}"
        )
    if (instance.vcpus or 0) > processors:
        raise TargetError(
            f"the host has no room for it: {instance.type} has {instance.vcpus} processors, and the host {processors}"
        )


def find_image(raw: Mapping[str, Any], instance: Instance) -> Image:
    """Return the machine image; InputError where it cannot be used."""
    name, key = instance.machine_image, "target.cloud.machine_image"
    attribute = "path" if name.startswith("/") else "name"
    for row in rows(raw, "volumes", "libvirt", _MOST):
        if row.get(attribute) == name:
            kind, path, info = volume_format(row.get("XMLDesc")), row.get("path"), row.get("info")
            if kind not in _FORMATS.values() or not isinstance(path, str):
                raise InputError(f"the volume '{name}' is neither a qcow2 nor a raw image, but {kind}", key=key)
            size = info[1] if isinstance(info, list) and len(info) > 1 and isinstance(info[1], int) else 0
            return Image(path=path, format=kind or "", size=size)
    suffix = PurePosixPath(name).suffix
    if attribute == "path" and suffix in _FORMATS:
        return Image(path=name, format=_FORMATS[suffix], size=0)
    hint = (
        "its name must end in .qcow2 or .raw, since its format is not guessed"
        if attribute == "path"
        else f"virsh vol-list {instance.pool} shows the pool's volumes, and virsh pool-refresh looks for new files"
    )
    raise InputError(f"the storage pool '{instance.pool}' has no machine image '{name}'", key=key, hint=hint)


def pool_folder(raw: Mapping[str, Any], instance: Instance) -> str:
    """Return the folder of the storage pool on the host; InputError where its volumes are not files."""
    pool, key = raw.get("pool"), "target.cloud.pool"
    folder = pool.get("path") if isinstance(pool, dict) else None
    if not isinstance(pool, dict) or not isinstance(folder, str) or not folder.startswith("/"):
        raise InputError(f"the storage pool '{instance.pool}' of libvirt not found", key=key)
    if pool.get("type") not in _FILE_POOLS:
        raise InputError(
            f"the storage pool '{instance.pool}' is of type '{excerpt(str(pool.get('type')))}'",
            key=key,
            hint=f"the disk is a file over the machine image: name a pool of type {', '.join(sorted(_FILE_POOLS))}",
        )
    return folder.rstrip("/")


def check_space(raw: Mapping[str, Any], instance: Instance, size: int) -> None:
    """Raise TargetError where the pool could not hold the disk once the guest has written all of it."""
    pool = raw.get("pool")
    free = _number(pool, "size_available")
    if size > free:
        raise TargetError(
            f"the storage pool has no room for it: the disk of {instance.type} may grow to {size} bytes, and "
            f"'{instance.pool}' has {free}"
        )


def _number(row: object, key: str) -> int:
    value = row.get(key) if isinstance(row, dict) else None
    text = str(value) if isinstance(value, str | int) else ""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise TargetError(f"libvirt's answer has no '{key}' of the host")
    return int(text)
