"""Files of sites: where they are looked for, and whom they may come from."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modak_deploy.errors import InputError
from modak_deploy.paths import expanded
from modak_deploy.util.files import listed

VARIABLE = "MODAK_SITES"
PROJECT_FILE = "modak-sites.yaml"
SYSTEM_FOLDER = Path("/etc/modak")
PATTERN = "sites*.yaml"
"""Files of sites in a folder."""
Kind = Literal["system", "user", "project", "named"]


@dataclass(frozen=True)
class SiteFilePath:
    """A file of sites, and how it came to be read."""

    path: Path
    kind: Kind
    folder: Path | None = None
    """The folder that it was listed in; None where the file itself was named."""


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's own files of sites, as the XDG base directory specification has it."""
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return expanded(base) / "modak"


def site_files(environment: Mapping[str, str] = os.environ) -> list[SiteFilePath]:
    """Return the files that exist, the weakest first: /etc/modak, the user's own, the working directory's.

    Files of one folder are in the order of their names, which decides nothing: none of them stands over another.

    MODAK_SITES replaces them all. InputError where it names what is not there.
    """
    if named := environment.get(VARIABLE):
        # As in PATH the first entry is the strongest.
        parts = [expanded(part) for part in named.split(os.pathsep) if part]
        return [file for part in reversed(parts) for file in _named(part)]
    return [
        *_in_folder(SYSTEM_FOLDER, "system"),
        *_in_folder(user_folder(environment), "user"),
        *(SiteFilePath(file, "project") for file in [Path(PROJECT_FILE).absolute()] if os.path.lexists(file)),
    ]


def _named(path: Path) -> list[SiteFilePath]:
    if not path.is_dir():
        return [SiteFilePath(path, "named")]  # reading it says what is wrong with it
    files = _in_folder(path, "named")
    if not files:
        raise InputError(f"the folder has no file sites*.yaml, and {VARIABLE} names it", source=path)
    return files


def _in_folder(folder: Path, kind: Kind) -> list[SiteFilePath]:
    """Return ``sites*.yaml`` of a folder in the order of their names."""
    try:
        return [SiteFilePath(file, kind, folder) for file in listed(folder, PATTERN)]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=folder, code="file-unreadable") from None


def check_trusted(file: SiteFilePath) -> None:
    """Raise InputError where somebody else could have written a file of sites that nobody named.

    What it holds decides which host the user's jobs and secrets go to, and what is run there. So the rule is that of
    ssh_config(5) and of git's safe.directory (CVE-2022-24765): the file and its folder belong to the user or to root,
    and no one else can write to them. A file that MODAK_SITES names is the user's choice, as a document is; it is only
    refused where everybody can write to it.
    """
    for path in dict.fromkeys((file.path.parent, file.path, file.path.resolve().parent, file.path.resolve())):
        try:
            status = path.stat()
        except FileNotFoundError:
            hint = "" if file.kind == "named" else "it is a link that leads nowhere"
            raise InputError("file not found", source=file.path, hint=hint, code="file-not-found") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", source=file.path, code="file-unreadable") from None
        if problem := _problem(path, status, file.kind):
            raise InputError(
                f"{problem}, so its settings are not used",
                source=file.path,
                hint=_hint(path),
                code="untrusted-file",
            )


def _problem(path: Path, status: os.stat_result, kind: Kind) -> str:
    is_folder = stat.S_ISDIR(status.st_mode)
    what = "the folder" if is_folder else "the file"
    name = f"{what} {path}" if is_folder else what
    # In a sticky folder such as /tmp nobody else can replace a file that belongs to the user.
    if status.st_mode & stat.S_IWOTH and not (is_folder and status.st_mode & stat.S_ISVTX):
        return f"everybody can write to {name}"
    if kind == "named":
        return ""
    owners = {0} if kind == "system" else {0, os.geteuid()}
    if status.st_uid not in owners and not (is_folder and status.st_mode & stat.S_ISVTX):
        return f"{name} belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid) and not (status.st_mode & stat.S_ISVTX):
        return f"the group {_group(status.st_gid)} can write to {name}"
    return ""


def _hint(path: Path) -> str:
    if path.stat().st_uid not in (0, os.geteuid()):
        return f"name the file in {VARIABLE} if you trust it"
    return f"run: chmod go-w {path}"


def _is_private_group(group: int) -> bool:
    """Tell whether a group is the user's alone, as where useradd makes one for each user and the umask is 002."""
    if group == 0 and os.geteuid() == 0:
        return True
    try:
        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def search_path(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield where files of sites are looked for, the strongest first, for messages."""
    if named := environment.get(VARIABLE):
        yield f"{VARIABLE} ({named})"
        return
    yield str(Path(PROJECT_FILE))
    yield str(user_folder(environment) / "sites.yaml")
    yield str(SYSTEM_FOLDER / "sites.yaml")
