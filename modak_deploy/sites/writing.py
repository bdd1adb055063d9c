"""Putting a site into a file of sites without touching what else the user wrote there, comments included."""

import re
import stat
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.documents import check
from modak_deploy.documents.reading import Document, read_text
from modak_deploy.documents.sitefiles import PATTERN, SYSTEM_FOLDER, SiteFilePath, user_folder
from modak_deploy.documents.sites import read_site_file
from modak_deploy.errors import InputError
from modak_deploy.model.site import SiteFile
from modak_deploy.util.files import PRIVATE, listed, locked, write_atomically

_HEAD = """\
# Machines and clusters by the names that 'target:' of documents uses; 'modak site list' shows them.
version: 1

sites:
"""


def check_writable(path: Path, name: str, *, replace: bool) -> None:
    """Raise InputError where ``write_site`` would refuse, before anything is asked over the network."""
    if path.exists():
        _edited(path, name, {}, replace=replace)
    _check_beside(path.absolute(), name)


def write_site(path: Path, name: str, settings: Mapping[str, Any], *, replace: bool) -> None:
    """Add a site to the file, which is made where it is absent; InputError where the file must be edited by hand."""
    path = path.resolve()  # a link into a folder of settings under version control stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.parent):
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else PRIVATE
            text = _edited(path, name, settings, replace=replace) if path.exists() else _HEAD + entry(name, settings)
            write_atomically(path, text, mode=mode)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=path) from None


def _check_beside(path: Path, name: str) -> None:
    """Raise InputError where another file of the folder describes the site: both are read there, which is an error."""
    if path.parent not in (user_folder(), SYSTEM_FOLDER) or not fnmatch(path.name, PATTERN):
        return
    for other in listed(path.parent, PATTERN):
        if other == path:
            continue
        document = read_site_file(SiteFilePath(other, "named")).document
        if name in (document.data.get("sites") or {}):
            line = document.locate(("sites", name)).line
            own = read_site_file(SiteFilePath(path, "named")).document.data if path.exists() else {}
            twice = name in (own.get("sites") or {})
            hint = "remove one of the two entries" if twice else f"use --file {other} with --replace, or another --name"
            raise InputError(f"the site '{name}' already exists", source=other, line=line, hint=hint)


def entry(name: str, settings: Mapping[str, Any], indent: int = 2) -> str:
    """Return the text of a site as it stands below the key ``sites``."""
    text = yaml.safe_dump(
        {name: dict(settings)}, sort_keys=False, width=110, allow_unicode=True, default_flow_style=None
    )
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def _edited(path: Path, name: str, settings: Mapping[str, Any], *, replace: bool) -> str:
    """Return the file's text with the site in it; everything else stays as it is, byte by byte."""
    document = read_site_file(SiteFilePath(path, "named")).document
    sites = document.data.get("sites") or {}
    if name in sites and not replace:
        line = document.locate(("sites", name)).line
        raise InputError(
            f"the site '{name}' already exists", source=path, line=line, hint="use --replace, or another --name"
        )
    before = read_text(path)
    if before.encode() != path.read_bytes():
        raise _by_hand(path, "it has a byte order mark or other line ends than Unix")
    lines = before.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if "sites" not in document.data:
        changed = [*lines, "\nsites:\n", entry(name, settings)]
    else:
        start, end, indent = _range(document, name, lines)
        changed = [*lines[:start], entry(name, settings, indent), *lines[end:]]
    text = "".join(changed)
    _verify(path, text, {**document.data, "sites": {**sites, name: dict(settings)}})
    return text


def _range(document: Document, name: str, lines: list[str]) -> tuple[int, int, int]:
    """Return which lines the site takes, or an empty range behind the last site, and the indentation of names."""
    node = document.sections()["sites"]
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        raise _by_hand(document.path, "'sites' is not written with one site below the other")
    indent = node.value[0][0].start_mark.column
    starts = [key.start_mark.line for key, _ in node.value]
    names = [key.value for key, _ in node.value]
    limit = node.end_mark.line if node.end_mark.column == 0 and node.end_mark.line < len(lines) else len(lines)
    if name not in names:
        end = _trimmed(lines, limit, indent)
        return end, end, indent
    at = names.index(name)
    start, end = starts[at], _trimmed(lines, [*starts[1:], limit][at], indent + 1)
    if any(re.search(r"(^|\s)#", line) for line in lines[start:end]):
        raise _by_hand(document.path, f"the site '{name}' has comments, which would be lost")
    return start, end, indent


def _trimmed(lines: list[str], end: int, indent: int) -> int:
    """Return ``end`` without the blank lines and less indented comments before it, which belong to what follows."""
    while end > 0 and (not (text := lines[end - 1].strip()) or (text[0] == "#" and lines[end - 1].index("#") < indent)):
        end -= 1
    return end


def _verify(path: Path, text: str, expected: Mapping[str, Any]) -> None:
    """Raise InputError unless ``text`` says what was there before, and the new site."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        data = None
    if data != expected:
        raise _by_hand(path, "its layout does not permit a site to be inserted")
    check(SiteFile, data, origin=str(path))


def _by_hand(path: Path, reason: str) -> InputError:
    hint = "print the site with --print, and edit the file, or name another with --file"
    return InputError(f"the file is left as it is: {reason}", source=path, hint=hint)
