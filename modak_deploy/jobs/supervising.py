"""A program that runs until it is told to stop: started again when it ends by itself, by a shell around it."""

import posixpath
from collections.abc import Sequence

from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.util.scripts import script_text

FOLDER = "supervise"
"""Folder, beside the working directory, with the shell and its records: ``child`` has the process that runs now and
when it started, ``restarts`` how often it was started again, and how it ended last."""
_SCRIPT = f"{FOLDER}/supervise.sh"


def files(request: JobRequest) -> dict[str, bytes]:
    """Return what travels, by its path below the job's folder; nothing for a program that ends."""
    return {_SCRIPT: script_text(__package__, "sh", "supervise.sh").encode()} if request.supervised else {}


def starter(request: JobRequest, directory: str) -> Sequence[str]:
    """Return the words before the program's own, outside of containers; none for a program that ends."""
    return ["/bin/sh", posixpath.join(directory, _SCRIPT), directory] if request.supervised else []
