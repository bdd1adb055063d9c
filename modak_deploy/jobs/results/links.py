"""Which symbolic links among the results are kept: those that cannot lead out of the folder they are fetched to."""

import posixpath

from modak_deploy.reported import MAX_PATH
from modak_deploy.transport.local import encode


def kept_target(path: str, target: str, work: str) -> str | None:
    """Return where the link at ``path``, below the results, is to lead; None when it must not be kept.

    ``work`` is the job's working directory on the target, which becomes the results' folder: an absolute target in it
    is made relative. Otherwise only ``../`` in front is supported: after a name, which may be a link itself, ``..``
    would lead elsewhere than it seems.
    """
    if target.startswith(f"{work}/"):
        target = posixpath.relpath(target, f"{work}/{posixpath.dirname(path)}")
    if not target or target.startswith("/") or len(encode(target)) > MAX_PATH:
        return None
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if ".." in parts[up:] or up > path.count("/") or len(parts) == 0:
        return None
    return target
