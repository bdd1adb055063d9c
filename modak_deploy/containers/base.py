"""What a container runtime is to modak: which images it takes, and the command that runs a program inside one."""

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from modak_deploy.model.image import Packing
from modak_deploy.model.jobrequest import JobRequest

SourceKind = Literal["layers", "sif artefact", "library", "sif file", "squashfs file", "file", "build"]
"""What a reference leads to: ``docker://``, ``oras://``, ``library://``, a file by its ending, ``build://``."""
SOURCE_KINDS: Mapping[SourceKind, str] = {
    "layers": "images of layers (docker://)",
    "sif artefact": "SIF images of a registry (oras://)",
    "library": "images of a library (library://)",
    "sif file": "SIF files",
    "squashfs file": "squashfs files",
    "file": "image files",
    "build": "images that are built from a recipe",
}
COMPRESSIONS: Mapping[str, str] = {
    "gzip": "",
    "zstd": "-comp zstd -Xcompression-level 3",
    "lz4": "-comp lz4",
    "none": "-noI -noD -noF -noX",
}
"""Arguments for mksquashfs. zstd is smaller than gzip and read twice as fast; lz4 and none start faster still and take
one and a half and four times the room. Singularity before 3.10 and kernels before 4.14 read gzip only."""
_INSIDE = {"PYTHONNOUSERSITE": "1"}
"""The home is seen inside, and the user's own Python packages there belong to another Python."""


@dataclass(frozen=True)
class Need:
    """An option that not every release has."""

    purpose: str
    release: str | None
    """The first that has it; None where none has."""
    accelerator: str | None = None
    """Only images for GPUs of this vendor need it; None for every image."""


class Runtime(ABC):
    """A container runtime: one class, registered by its name in the entry point group ``modak.containers``.

    No method does I/O. Images are pulled, checked and built by the shell steps of ``modak_deploy/images/sh``.
    """

    name: ClassVar[str]
    sources: ClassVar[Sequence[SourceKind]]
    """Which images it can be given."""
    version_command: ClassVar[Sequence[str]]
    """Program and arguments that print its version on a target."""
    version_line: ClassVar[str]
    """Regular expression for the line with the version; its first group is the version."""
    variables: ClassVar[str]
    """How ``data/enter.sh`` passes variables on: the prefix of their names outside (``APPTAINERENV_``), ``--env`` for
    an option of the command, or ``unset`` where all of them go inside and the others must be unset."""
    suffix: ClassVar[str | None] = None
    """How its image files end; None where it keeps images in a store of its own."""
    for_clusters: ClassVar[bool] = True
    """Whether it was made for clusters: such a one is preferred where nothing else decides."""
    joins_ranks: ClassVar[bool] = True
    """Whether the ranks of an MPI program in its containers can reach their launcher."""
    as_user: ClassVar[bool] = False
    """Whether what runs inside is a process of the target's user, as which the port of a service is looked for."""
    shows_workspace: ClassVar[bool] = False
    """Whether a program inside may see the workspace around the job's folder; if not, what it writes there is lost."""
    verifies_signatures: ClassVar[bool] = False
    """Whether the signature of an image can be verified with it."""
    needs: ClassVar[Sequence[Need]] = ()
    compression: ClassVar[str] = "gzip"
    """How an image file is compressed that is made for it; what every release reads."""
    packings: ClassVar[Sequence[Packing]] = ()
    """How an image file can be compressed that is made for it of layers; empty where that is fixed."""
    push_scheme: ClassVar[Literal["oras", "docker"] | None] = None
    """The scheme of the references that it can push to; None where it cannot push."""

    @property
    def pull_tool(self) -> str:
        """What ``pull.sh`` and ``pull_store.sh`` pull with."""
        return self.name

    @property
    def check_tool(self) -> str:
        """What ``check.sh`` looks into an image file with; ``none`` looks at its hash alone."""
        return "none"

    def folder_inside(self, directory: str) -> str:
        """Return the path under which the job's folder ``directory`` is seen inside an image."""
        return directory

    @abstractmethod
    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """Return the command before the program that runs inside ``image``.

        ``binds`` are the folders to show inside, the job's folder first; ``work`` is the working directory where it is
        not ``work`` in the job's folder. InputError for what the runtime cannot do.
        """


def inside(request: JobRequest) -> list[str]:
    """Return NAME=VALUE of what holds inside only; the preloaded libraries are looked up in the image."""
    preload = {"LD_PRELOAD": ":".join(request.preload)} if request.preload else {}
    return [f"{name}={value}" for name, value in {**_INSIDE, **preload}.items()]


def accelerator(request: JobRequest) -> str:
    """Return the vendor of the GPUs that the chosen image's software uses; empty where it uses none."""
    return (request.image.accelerator if request.image else None) or ""


def work_folder(directory: str) -> str:
    """Return where the application runs, below the job's folder."""
    return posixpath.join(directory, "work")
