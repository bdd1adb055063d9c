"""The launcher in a job: what travels for it, and how the program is started with it.

It lies in a folder of its own in the job's folder, beside the working directory. The program is started by a shell that
puts it at the head of PYTHONPATH where the program runs: after modules and ``pre_execution``, and inside a container,
whose own PYTHONPATH stays behind it.
"""

import json
import posixpath
from collections.abc import Sequence

from modak_deploy.errors import InputError
from modak_deploy.launch import bundle
from modak_deploy.launch.config import SESSION_OPTIONS, VARIABLE, VERSION
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.execution import Launch
from modak_deploy.model.jobrequest import JobRequest

FOLDER = "launch"
BUNDLE = f"{FOLDER}/modak_launch.zip"
CONFIG = f"{FOLDER}/config.json"
RECORD = f"{FOLDER}/record"
"""Folder in which each process of the job writes its record."""
CACHE = "../../../cache"
"""Folder that outlasts the job, from the launcher's in the job's: ``cache`` in the workspace, for all jobs there."""
_KEEPS = "pytorch-"
"""What the names of levers begin with that are made at a cost and kept."""
_START = f'''PYTHONPATH=$1${{PYTHONPATH:+:$PYTHONPATH}} {VARIABLE}=${{MODAK_LAUNCH_CONFIG:-$2}}
export PYTHONPATH {VARIABLE}
shift 2
exec "$@"'''

_NOT_STARTED = '''echo "modak: the launcher is not used: the folder of the job has a colon in its name" >&2
exec "$@"'''


def files(request: JobRequest) -> dict[str, bytes]:
    """Return what travels, by its path below the job's folder; nothing for a program that is left to itself."""
    if request.launch is None:
        return {}
    return {BUNDLE: bundle.archive(), CONFIG: config(request.launch, request).encode()}


def starter(request: JobRequest, directory: str) -> list[str]:
    """Return the words that start the program with the launcher, to stand before its own; none where it has none.

    ``directory`` is the job's folder where the program sees it.
    """
    if request.launch is None:
        return []
    if ":" in directory:
        if request.launch.levers:
            raise InputError(
                f"'{directory}' holds a colon, and PYTHONPATH cannot name such a folder", key="target.workspace"
            )
        return ["sh", "-c", _NOT_STARTED, "modak-launch"]
    return ["sh", "-c", _START, "modak-launch", *(posixpath.join(directory, name) for name in (BUNDLE, CONFIG))]


def launched(request: JobRequest, argv: Sequence[str], directory: str) -> list[str]:
    """Return the program's command line with the launcher, outside of containers."""
    return [*starter(request, directory), *argv]


def config(launch: Launch, request: JobRequest, *, folder: str = ".") -> str:
    """Return the launcher's configuration; its paths are relative to the file, so that it holds in a container too.

    ``folder`` leads from the file's folder to the launcher's.
    """
    trials = {
        "mode": launch.trials,
        "numerics": launch.numerics,
        "candidates": launch.candidates,
        "kept": launch.kept or None,
        "gain": launch.gain,
        "share": launch.share,
        "units": launch.units,
        "expected": {name: {"gain": gain} for name, gain in launch.expected.items()} or None,
        "foreseen": launch.foreseen or None,
        "claim": _below(folder, "trials") if request.options.array is not None else None,
    }
    values = {
        "version": VERSION,
        "record": _below(folder, posixpath.basename(RECORD)),
        "earlier": ["../attempts/*/record"],
        **switched_on(launch),
        "trials": {key: value for key, value in trials.items() if value is not None},
        **({} if launch.counts else {"counts": False}),
        **cache(launch, request),
    }
    return json.dumps(values, indent=2, sort_keys=True) + "\n"


def switched_on(launch: Launch) -> dict[str, object]:
    """Return the part of the configuration that names what is on from the start."""
    session = {SESSION_OPTIONS: launch.session} if launch.session else {}
    return {"levers": [*launch.levers, *session], "settings": session}


def cache(launch: Launch, request: JobRequest) -> dict[str, str]:
    """Return where what levers make at a cost is kept, for a file in a folder of the job's folder; nothing if nowhere.

    The target's workspace is its user's and is shared by its nodes. It stays when a job is removed.
    """
    keeps = launch.compiled or any(name.startswith(_KEEPS) for name in (*launch.levers, *launch.candidates))
    return {"cache": CACHE} if keeps and _sees_workspace(request.runtime) else {}


def _sees_workspace(runtime: RuntimeName) -> bool:
    from modak_deploy.containers import registry

    return runtime == "native" or registry.get(runtime).shows_workspace


def _below(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))
