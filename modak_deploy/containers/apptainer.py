"""Apptainer and Singularity."""

from collections.abc import Sequence
from typing import ClassVar

from modak_deploy.containers.base import Need, Runtime, accelerator, inside, work_folder
from modak_deploy.model.image import Packing
from modak_deploy.model.jobrequest import JobRequest


class Apptainer(Runtime):
    """Apptainer 1.0 and newer."""

    name = "apptainer"
    # Apptainer itself mounts squashfs files too; modak verifies SIF files only.
    sources = ("layers", "sif artefact", "library", "sif file", "file", "build")
    version_command = ("apptainer", "--version")
    version_line = r"^apptainer version (\S+)"
    variables = "APPTAINERENV_"
    suffix = ".sif"
    as_user = True
    shows_workspace = True
    verifies_signatures = True
    compression = "zstd"
    packings: ClassVar[Sequence[Packing]] = ("gzip", "zstd", "lz4", "none")
    push_scheme = "oras"

    @property
    def check_tool(self) -> str:
        """See ``Runtime.check_tool``."""
        return self.name

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """See ``Runtime.command``."""
        return [*self._before(request, binds, work), *(f"--env={variable}" for variable in inside(request)), image]

    def _before(self, request: JobRequest, binds: Sequence[str], work: str | None) -> list[str]:
        return [
            self.name,
            "exec",
            "--cleanenv",
            *{"nvidia": ["--nv"], "amd": ["--rocm"]}.get(accelerator(request), []),
            *(f"--bind={path}" for path in binds),
            f"--pwd={work or work_folder(binds[0])}",
        ]


class Singularity(Apptainer):
    """Singularity 3.0 and newer, and SingularityCE. Apptainer also comes as ``singularity``, and says so itself."""

    name = "singularity"
    version_command = ("singularity", "--version")
    version_line = r"^(?:singularity(?:-\w+)? version )?(\d\S*)"  # 2.x printed the bare number
    variables = "SINGULARITYENV_"
    needs = (Need("images in one file (SIF)", "3.0"), Need("--rocm", "3.5", "amd"))
    compression = "gzip"
    packings = ("gzip",)  # before 3.10 it reads no other

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """See ``Runtime.command``: Singularity has no --env before 3.6."""
        variables = [f"{self.variables}{variable}" for variable in inside(request)]
        return ["env", *variables, *self._before(request, binds, work), image]
