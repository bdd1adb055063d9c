"""The command line that runs a program inside the job's image."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml

from modak_deploy.containers import registry
from modak_deploy.containers.base import accelerator
from modak_deploy.containers.location import argument
from modak_deploy.errors import InputError
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.util.scripts import script_text

ENDS: Mapping[int, str] = {
    119: "the container cannot be started",
    120: "the image has no such program as the application",
    121: "a folder that the container is to see is not on the node",
    122: "the image uses GPUs, and the node has no such device",
}
"""Exit codes of data/enter.sh, which looks before it starts the application; its sentence is in the job's log."""


def wrap(
    request: JobRequest,
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
    words that start ``argv`` inside, for the job's folder as it is seen there; they are left out in an image without a
    shell. What the job script exports for the job, the scheduler and MPI passes in by name; everything else of the
    host stays outside.
    The preloaded libraries are the image's, so the job script must not set LD_PRELOAD for a container.
    """
    if request.runtime == "native":
        return list(argv)
    if request.image is None:
        raise InputError(f"candidate '{request.candidate}' runs with {request.runtime} but names no image")
    names = {
        *request.environment,
        *request.secret_environment,
        *request.options.environment,
        *request.lever_environment,
        *passed,
    }
    image = argument(request.image, request.runtime, images) if image is None else image
    binds = [directory, *([] if work is None else [work]), *request.target.binds]
    for path in binds:
        _check_bind(path, request.runtime)
    runtime = registry.get(request.runtime)
    start = starter(runtime.folder_inside(directory))
    counts = [str(len(argv)), str(len(start))]
    command = runtime.command(request, image, binds, work)
    return [*_enter(runtime.variables, names), *counts, accelerator(request), *command, *start, *argv]


def environment_pattern(names: set[str]) -> str:
    """Return the awk pattern of the variables that pass into a container: the kept ones and ``names``."""
    kept = _kept()
    exact = "|".join(sorted({*kept["names"], *names} - {"LD_PRELOAD"}))
    return f"^(({'|'.join(kept['prefixes'])})[A-Za-z0-9_]*|{exact})$"


@cache
def _kept() -> dict[str, list[str]]:
    text = files("modak_deploy.containers").joinpath("data/kept_environment.yaml").read_text(encoding="utf-8")
    loaded: dict[str, list[str]] = yaml.safe_load(text)
    return loaded


def _enter_script() -> str:
    return script_text(__package__, "data", "enter.sh")


def _enter(variables: str, names: set[str]) -> list[str]:
    return ["sh", "-c", _enter_script(), "modak-enter", variables, environment_pattern(names)]


def _check_bind(path: str, runtime: RuntimeName) -> None:
    if not path.startswith("/") or ".." in path.split("/"):
        raise InputError(f"'{path}' cannot be shown to a container", hint="write an absolute path without '..'")
    if re.search(r"[,:\x00-\x1f]", path):
        raise InputError(f"'{path}' cannot be shown to a container: {runtime} reads ',' and ':' as separators")
