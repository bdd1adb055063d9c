"""The command line that runs a program inside the Plan's image: pure functions, one per runtime."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml

from modak.errors import InputError
from modak.model.base import RuntimeName
from modak.model.plan import Plan
from modak.runtimes.place import argument
from modak.util.scripts import script_text

CHARLIECLOUD_MOUNT, CHARLIECLOUD_SCRATCH = "/mnt/0", "/mnt/1"
"""Mount points that every Charliecloud image has: read-only images get no new ones."""

ENDS: Mapping[int, str] = {
    119: "the container cannot be started",
    120: "the image has no such program as the application",
    121: "a folder that the container is to see is not on the node",
    122: "the image uses GPUs, and the node has no such device",
}
"""Exit codes of data/enter.sh, which looks before it starts the application; its sentence is in the job's log."""
_INSIDE = {"PYTHONNOUSERSITE": "1"}
"""The home is seen inside, and the user's own Python packages there belong to another Python."""


def wrap(
    plan: Plan,
    argv: Sequence[str],
    *,
    directory: str,
    images: str,
    image: str | None = None,
    passed: Sequence[str] = (),
    work: str | None = None,
    starter: Callable[[str], Sequence[str]] = lambda directory: (),
) -> list[str]:
    """Return ``argv`` as it runs on one rank inside the chosen image, unchanged when the runtime is native.

    ``directory`` is the job's folder and ``images`` the image folder, both absolute on the target; ``image`` is what
    the runtime is given where it is not the file that the image folder keeps, ``passed`` are more variables that go
    inside, and ``work`` is the working directory where it is not ``work`` in the job's folder. ``starter`` returns the
    words that start ``argv`` inside, for the job's folder as it is seen there. What the job script exports for the
    Plan, the scheduler and MPI passes in by name; everything else of the host stays outside.
    The preloaded libraries are the image's, so the job script must not set LD_PRELOAD for a container.
    """
    chosen = plan.chosen
    if chosen.runtime == "native":
        return list(argv)
    if chosen.image is None:
        raise InputError(f"candidate '{chosen.name}' runs with {chosen.runtime} but names no image")
    names = {
        *plan.application.environment,
        *plan.application.secret_environment,
        *plan.job.environment,
        *chosen.environment,
        *passed,
    }
    image = argument(chosen.image, chosen.runtime, images) if image is None else image
    binds = [directory, *([] if work is None else [work]), *plan.target.binds]
    for path in binds:
        _check_bind(path, chosen.runtime)
    inside = CHARLIECLOUD_MOUNT if chosen.runtime == "charliecloud" else directory
    command = [*_RUNTIMES[chosen.runtime](plan, image, binds, work), *starter(inside)]
    checks = [str(len(argv)), _accelerator(plan)]
    return [*_enter(chosen.runtime, names), *checks, *command, *argv]


def environment_pattern(names: set[str]) -> str:
    """Return the awk pattern of the variables that pass into a container: the kept ones and ``names``."""
    kept = _kept()
    exact = "|".join(sorted({*kept["names"], *names} - {"LD_PRELOAD"}))
    return f"^(({'|'.join(kept['prefixes'])})[A-Za-z0-9_]*|{exact})$"


@cache
def _kept() -> dict[str, list[str]]:
    text = files("modak.runtimes").joinpath("data/kept_environment.yaml").read_text(encoding="utf-8")
    loaded: dict[str, list[str]] = yaml.safe_load(text)
    return loaded


def _enter_script() -> str:
    return script_text(__package__, "data", "enter.sh")


def _enter(runtime: RuntimeName, names: set[str]) -> list[str]:
    how = {
        "apptainer": "APPTAINERENV_",
        "singularity": "SINGULARITYENV_",
        "podman": "--env",
        "docker": "--env",
        "charliecloud": "unset",
    }[runtime]
    return ["sh", "-c", _enter_script(), "modak-enter", how, environment_pattern(names)]


def _check_bind(path: str, runtime: RuntimeName) -> None:
    if not path.startswith("/") or ".." in path.split("/"):
        raise InputError(f"'{path}' cannot be shown to a container: write an absolute path without '..'")
    if re.search(r"[,:\x00-\x1f]", path):
        raise InputError(f"'{path}' cannot be shown to a container: {runtime} reads ',' and ':' as separators")


def _work(directory: str) -> str:
    return posixpath.join(directory, "work")


def _variables(plan: Plan) -> list[str]:
    """Return NAME=VALUE of what holds inside only; the preloaded libraries are looked up in the image."""
    preload = {"LD_PRELOAD": ":".join(plan.chosen.preload)} if plan.chosen.preload else {}
    return [f"{name}={value}" for name, value in {**_INSIDE, **preload}.items()]


def _accelerator(plan: Plan) -> str:
    return (plan.chosen.image.accelerator if plan.chosen.image else None) or ""


def _apptainer(plan: Plan, image: str, binds: list[str], work: str | None) -> list[str]:
    return [
        plan.chosen.runtime,
        "exec",
        "--cleanenv",
        *{"nvidia": ["--nv"], "amd": ["--rocm"]}.get(_accelerator(plan), []),
        *(f"--bind={path}" for path in binds),
        f"--pwd={work or _work(binds[0])}",
        *([] if plan.chosen.runtime == "singularity" else [f"--env={variable}" for variable in _variables(plan)]),
        image,
    ]


def _singularity(plan: Plan, image: str, binds: list[str], work: str | None) -> list[str]:
    # Singularity has no --env before 3.6.
    variables = [f"SINGULARITYENV_{variable}" for variable in _variables(plan)]
    return ["env", *variables, *_apptainer(plan, image, binds, work)]


def _podman(plan: Plan, image: str, binds: list[str], work: str | None) -> list[str]:
    # Root inside a rootless container is the user outside, so files keep their owner without a copy of every layer.
    gpu = {
        "nvidia": ["--device=nvidia.com/gpu=all"],
        "amd": ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups"],
    }
    flags = ["--user=0:0", "--pull=never", "--ulimit=host", *gpu.get(_accelerator(plan), [])]
    return ["podman", *_oci_run(plan, image, binds, work, flags)]


def _docker(plan: Plan, image: str, binds: list[str], work: str | None) -> list[str]:
    gpu = {"nvidia": ["--gpus=all"], "amd": ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"]}
    return ["docker", *_oci_run(plan, image, binds, work, ["--pull=never", *gpu.get(_accelerator(plan), [])])]


def _oci_run(plan: Plan, image: str, binds: list[str], work: str | None, flags: list[str]) -> list[str]:
    return [
        "run",
        "--rm",
        "--network=host",
        "--volume=/dev/shm:/dev/shm",  # ranks share memory there; --ipc=host would need /dev/mqueue too
        "--security-opt=label=disable",
        "--entrypoint=",
        *flags,
        *(f"--volume={path}:{path}" for path in binds),
        f"--workdir={work or _work(binds[0])}",
        "--env=HOME=/tmp",
        *(f"--env={variable}" for variable in _variables(plan)),
        image,
    ]


def _charliecloud(plan: Plan, image: str, binds: list[str], work: str | None) -> list[str]:
    if _accelerator(plan):
        raise InputError("charliecloud does not show GPUs to an image by itself: use apptainer or podman for it")
    own = {binds[0]: CHARLIECLOUD_MOUNT, **({} if work is None else {work: CHARLIECLOUD_SCRATCH})}
    return [
        "ch-run",
        "--set-env",
        *(f"--bind={path}:{own[path]}" if path in own else f"--bind={path}" for path in binds),
        f"--cd={_work(CHARLIECLOUD_MOUNT) if work is None else CHARLIECLOUD_SCRATCH}",
        *(f"--set-env={variable}" for variable in _variables(plan)),
        image,
        "--",
    ]


_RUNTIMES: dict[RuntimeName, Callable[[Plan, str, list[str], str | None], list[str]]] = {
    "apptainer": _apptainer,
    "singularity": _singularity,
    "podman": _podman,
    "docker": _docker,
    "charliecloud": _charliecloud,
}
