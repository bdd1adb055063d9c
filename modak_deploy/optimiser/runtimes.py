"""Why a release of a container runtime cannot run an image as it should be run, as one clause."""

from packaging.version import Version

from modak_deploy.containers import capabilities, registry
from modak_deploy.model.base import RuntimeName


def fault_of_runtime(runtime: RuntimeName, version: str, accelerator: str | None) -> str | None:
    """Return why this release cannot run images for GPUs of a vendor (None: any image), as one clause."""
    for need in registry.get(runtime).needs:
        if need.accelerator != accelerator:
            continue
        if need.release is None:
            return f"{runtime} has no {need.purpose}: use {capabilities.without_gap(need)} for them"
        if Version(version) < Version(need.release):
            return f"{runtime} {version} is too old: {need.purpose} takes {need.release} or newer"
    return None


def fault_of_ranks(runtime: RuntimeName, ranks: int) -> str | None:
    """Return why the ranks of an MPI application cannot find each other in this runtime's containers, as one clause."""
    if ranks == 1 or registry.get(runtime).joins_ranks:
        return None
    return f"{runtime} cuts {ranks} ranks of MPI off from their launcher: use {capabilities.joining_ranks()} for them"
