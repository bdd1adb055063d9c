"""The container runtime ``treerun``: an image file is a tar archive of programs, which come first on the path."""

from collections.abc import Sequence

from modak_deploy.errors import InputError
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.containers.base import Need, Runtime, accelerator, inside, work_folder


class TreeRun(Runtime):
    """treerun 2.0 and newer."""

    name = "treerun"
    sources = ("file",)
    version_command = ("treerun", "--version")
    version_line = r"^treerun (\S+)"
    variables = "unset"
    suffix = ".tar"
    needs = (Need("--bind", "2.0"),)

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        if accelerator(request):
            raise InputError("treerun does not show GPUs to an image: use apptainer for it")
        variables = [f"--set={variable}" for variable in inside(request)]
        return ["treerun", *(f"--bind={path}" for path in binds), f"--cd={work or work_folder(binds[0])}", *variables, image]
