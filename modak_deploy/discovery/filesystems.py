"""The file systems of the folders that matter to jobs: df and /proc/mounts."""

import re
from typing import Literal

from modak_deploy.discovery.probe import Answer
from modak_deploy.model.target import FileSystem

_FOLDERS: tuple[Literal["home", "workspace"], ...] = ("home", "workspace")
_LINE = re.compile(
    r".+?\s+(?P<size>\d{1,16})\s+-?\d{1,16}\s+(?P<free>-?\d{1,16})\s+(?:\d+%|-)\s+(?P<mount>/.*)", re.ASCII
)


def parse_file_systems(answer: Answer) -> dict[Literal["home", "workspace"], FileSystem]:
    """Return the file systems that ``df -Pk`` told of, with their types as far as /proc/mounts knows them."""
    types = parse_mounts(answer["mounts"])
    reported = ((folder, parse_df(answer[f"df-{folder}"], types)) for folder in _FOLDERS)
    return {folder: filesystems for folder, filesystems in reported if filesystems is not None}


def parse_df(text: str, types: dict[str, str]) -> FileSystem | None:
    """Return what ``df -Pk FOLDER`` says, None when it says nothing; ``types`` are by mount point."""
    line = next((filesystems for line in text.splitlines() if (filesystems := _LINE.fullmatch(line.rstrip()))), None)
    if line is None:
        return None
    mount = line["mount"]
    free = max(int(line["free"]), 0)  # some tell the reserve of a full one as less than nothing
    return FileSystem(mount=mount, type=types.get(mount), size=int(line["size"]) * 1024, free=free * 1024)


def parse_mounts(text: str) -> dict[str, str]:
    """Return the types in /proc/mounts by mount point; what is mounted last covers what was there before."""
    fields = (line.split(" ") for line in text.splitlines())
    return {_plain(columns[1]): columns[2] for columns in fields if len(columns) >= 3}


def _plain(text: str) -> str:
    """Return a name of /proc/mounts with the blanks and backslashes that stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda filesystems: chr(int(filesystems[1], 8)), text)
