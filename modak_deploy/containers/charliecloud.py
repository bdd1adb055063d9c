"""Charliecloud: ch-run and ch-image."""

from collections.abc import Sequence

from modak_deploy.containers.base import Need, Runtime, accelerator, inside, work_folder
from modak_deploy.errors import InputError
from modak_deploy.model.jobrequest import JobRequest

# ch-run(1): "Most images do have ten directories /mnt/[0-9] already available as mount points."
MOUNT, SCRATCH = "/mnt/0", "/mnt/1"
"""Mount points that every Charliecloud image has: read-only images get no new ones."""


class Charliecloud(Runtime):
    """Charliecloud 0.26 and newer, with images in squashfs files."""

    name = "charliecloud"
    # ch-image drops labels when it builds (0.31), so what it builds could not be verified.
    sources = ("layers", "squashfs file", "file")
    version_command = ("ch-run", "--version")
    version_line = r"^(?:ch-run )?(\d\S*)"
    variables = "unset"
    suffix = ".sqfs"
    as_user = True
    needs = (Need("GPUs inside an image", None, "nvidia"), Need("GPUs inside an image", None, "amd"))

    @property
    def pull_tool(self) -> str:
        """See ``Runtime.pull_tool``."""
        return "ch-image"

    @property
    def check_tool(self) -> str:
        """See ``Runtime.check_tool``."""
        return "ch-run"

    def folder_inside(self, directory: str) -> str:
        """See ``Runtime.folder_inside``."""
        return MOUNT

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """See ``Runtime.command``."""
        if accelerator(request):
            raise InputError(
                "charliecloud does not show GPUs to an image by itself", hint="use apptainer or podman for it"
            )
        own = {binds[0]: MOUNT, **({} if work is None else {work: SCRATCH})}
        return [
            "ch-run",
            # Without a value: what the image itself sets, from its file /ch/environment (ch-run(1)).
            "--set-env",
            *(f"--bind={path}:{own[path]}" if path in own else f"--bind={path}" for path in binds),
            f"--cd={work_folder(MOUNT) if work is None else SCRATCH}",
            *(f"--set-env={variable}" for variable in inside(request)),
            image,
            "--",
        ]
