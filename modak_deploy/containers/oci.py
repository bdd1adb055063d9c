"""podman and docker, which keep images in stores of their own."""

from collections.abc import Sequence

from modak_deploy.containers.base import Need, Runtime, accelerator, inside, work_folder
from modak_deploy.model.jobrequest import JobRequest

_DEVICES = ["--device=/dev/kfd", "--device=/dev/dri"]
"""Of GPUs by AMD."""


class _Oci(Runtime):
    # podman pulls oras:// artefacts as of 5.4, but cannot run a SIF file.
    sources = ("layers", "build")
    variables = "--env"
    for_clusters = False
    # They close the files by which a launcher's PMI speaks to a rank, and hide the folders of PMIx.
    joins_ranks = False
    push_scheme = "docker"

    def _run(
        self, request: JobRequest, image: str, binds: Sequence[str], work: str | None, flags: Sequence[str]
    ) -> list[str]:
        return [
            self.name,
            "run",
            "--rm",
            "--network=host",
            "--volume=/dev/shm:/dev/shm",  # ranks share memory there; --ipc=host would need /dev/mqueue too
            "--security-opt=label=disable",
            # The image's own entry point would be started with the program as its argument (podman-run(1)).
            "--entrypoint=",
            *flags,
            *(f"--volume={path}:{path}" for path in binds),
            f"--workdir={work or work_folder(binds[0])}",
            "--env=HOME=/tmp",
            *(f"--env={variable}" for variable in inside(request)),
            image,
        ]


class Podman(_Oci):
    """podman without root."""

    name = "podman"
    version_command = ("podman", "--version")
    version_line = r"^podman version (\S+)"
    needs = (Need("--group-add=keep-groups", "3.2", "amd"), Need("devices by CDI", "4.1", "nvidia"))

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """See ``Runtime.command``."""
        # podman-run(1), --group-add=keep-groups: /dev/kfd is open to a group of the user's, which is lost otherwise.
        gpu = {"nvidia": ["--device=nvidia.com/gpu=all"], "amd": [*_DEVICES, "--group-add=keep-groups"]}
        # Root inside a rootless container is the user outside, so files keep their owner without a copy of every layer.
        # podman-run(1), --ulimit=host: the limits of the job, and not those of containers.conf.
        flags = ["--user=0:0", "--pull=never", "--ulimit=host", *gpu.get(accelerator(request), [])]
        return self._run(request, image, binds, work, flags)


class Docker(_Oci):
    """docker."""

    name = "docker"
    # The command alone is of no use: its daemon must answer this user.
    version_command = ("docker", "version", "--format", "{{.Server.Version}}")
    version_line = r"^(\d\S*)$"
    needs = (Need("run --pull=never", "20.10"),)

    def command(self, request: JobRequest, image: str, binds: Sequence[str], work: str | None) -> list[str]:
        """See ``Runtime.command``."""
        gpu = {"nvidia": ["--gpus=all"], "amd": [*_DEVICES, "--group-add=video"]}
        return self._run(request, image, binds, work, ["--pull=never", *gpu.get(accelerator(request), [])])
