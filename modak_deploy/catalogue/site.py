"""A site's own catalogue: folders and single files, here or at an address, a later one on top."""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.paths import expanded
from modak_deploy.util.files import exists, write_atomically

if TYPE_CHECKING:
    from urllib.request import Request

_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<rest>[^#\s]+)(#sha256=(?P<hash>[0-9a-f]{64}))?")
_MOST = 64 * 1024**2
"""Bytes of one file."""


def catalogue_for(locations: Sequence[str], search: Sequence[Path] = ()) -> Catalogue:
    """Return the shipped catalogue with a request's ``catalogue`` places on top.

    A relative path is looked for in the folders of ``search``, in their order. InputError says which place is not
    there or wrong.
    """
    return load_catalogue([_local(location, search) for location in locations])


def _local(location: str, search: Sequence[Path]) -> Path:
    if re.match(r"[a-z]+://", location):
        return fetch(location)
    path = expanded(location, key="request.catalogue")
    tried = [path] if path.is_absolute() else [folder / path for folder in search or (Path.cwd(),)]
    for candidate in tried:
        if exists(candidate):
            return candidate
    raise InputError(
        f"'{location}' not found", key="request.catalogue", hint=f"looked for {', '.join(map(str, tried))}"
    )


def fetch(address: str, cache: Path | None = None) -> Path:
    """Return a copy of the catalogue file at ``address`` in the user's cache.

    ``#sha256=<64 digits>`` at its end pins the content: a copy that is there is then not fetched again, and anything
    else is refused. Without it only ``https`` will do, and the file is fetched each time.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(
            f"'{address}' is not an https:// address, with '#sha256=<64 digits>' or without", key="request.catalogue"
        )
    pinned = match["hash"]
    if match["scheme"] == "http" and pinned is None:
        raise InputError(f"'{address}' needs https, or '#sha256=<64 digits>' at its end", key="request.catalogue")
    path = match["rest"].partition("?")[0].rpartition("@")[2]
    name = path.rpartition("/")[2]
    if "/" not in path or name in ("", ".", ".."):
        raise InputError(f"'{address}' names no file", key="request.catalogue")
    folder = cache or _cache()
    if pinned is not None and _digest_of(folder / pinned / name) == pinned:
        return folder / pinned / name
    content = _download(f"{match['scheme']}://{match['rest']}", secure=pinned is None)
    digest = hashlib.sha256(content).hexdigest()
    if pinned is not None and digest != pinned:
        raise InputError(f"'{address}' has SHA-256 {digest}, not the one that it is pinned to", key="request.catalogue")
    return _keep(folder / digest / name, content)


def _digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expanded(base) / "modak" / "catalogue"


def _download(address: str, *, secure: bool) -> bytes:
    """Return what lies at ``address``; ``secure`` refuses a redirection to plain HTTP, also one on the way."""
    import http.client
    import urllib.error
    import urllib.request

    from modak_deploy.catalogue.redirections import Redirections

    opener = urllib.request.build_opener(Redirections(address, secure=secure))
    try:
        with opener.open(_request(address), timeout=30) as answer:
            content: bytes = answer.read(_MOST + 1)
    except urllib.error.HTTPError as error:
        raise InputError(f"'{address}' cannot be fetched: HTTP status {error.code}", key="request.catalogue") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise InputError(f"'{address}' cannot be fetched: {reason}", key="request.catalogue") from None
    if len(content) > _MOST:
        raise InputError(f"'{address}' is larger than {_MOST // 1024**2} MiB", key="request.catalogue")
    return content


def _request(address: str) -> "Request":
    """Return the request for ``address``, whose user name and password go into a header that no redirection passes on.

    urllib itself takes them for a part of the host name.
    """
    import base64
    from urllib.parse import unquote, urlsplit, urlunsplit
    from urllib.request import Request

    parts = urlsplit(address)
    userinfo, at, host = parts.netloc.rpartition("@")
    request = Request(urlunsplit(parts._replace(netloc=host)))  # noqa: S310 - http or https, checked by the caller
    if at:
        token = base64.b64encode(unquote(userinfo).encode()).decode("ascii")
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _keep(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", key="request.catalogue") from None
    return path
