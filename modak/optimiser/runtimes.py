"""Which release of a container runtime has the options that modak starts images with (see modak/runtimes/run.py)."""

from typing import NamedTuple

from packaging.version import Version

from modak.model.base import RuntimeName


class Need(NamedTuple):
    """An option that not every release has."""

    runtime: RuntimeName
    accelerator: str | None
    """Only images for GPUs of this vendor need it; None for every image."""
    release: str | None
    """The first that has it; None where none has."""
    purpose: str


NEEDS = (
    Need("singularity", None, "3.0", "images in one file (SIF)"),
    Need("singularity", "amd", "3.5", "--rocm"),
    Need("docker", None, "20.10", "run --pull=never"),
    Need("podman", "amd", "3.2", "--group-add=keep-groups"),
    Need("podman", "nvidia", "4.1", "devices by CDI"),
    Need("charliecloud", "nvidia", None, "GPUs inside an image"),
    Need("charliecloud", "amd", None, "GPUs inside an image"),
)


def fault_of_runtime(runtime: RuntimeName, version: str, accelerator: str | None) -> str | None:
    """Return why this release cannot run images for GPUs of a vendor (None: any image), as one clause."""
    for need in NEEDS:
        if (need.runtime, need.accelerator) != (runtime, accelerator):
            continue
        if need.release is None:
            return f"{runtime} has no {need.purpose}: use apptainer or podman for them"
        if Version(version) < Version(need.release):
            return f"{runtime} {version} is too old: {need.purpose} takes {need.release} or newer"
    return None


def fault_of_ranks(runtime: RuntimeName, ranks: int) -> str | None:
    """Return why the ranks of an MPI application cannot find each other in this runtime's containers, as one clause.

    podman and docker close the files by which a launcher's PMI speaks to a rank, and hide the folders of PMIx.
    """
    if ranks == 1 or runtime not in ("podman", "docker"):
        return None
    return f"{runtime} cuts {ranks} ranks of MPI off from their launcher: use apptainer or charliecloud for them"
