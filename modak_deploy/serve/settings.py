"""How the service is started."""

import ipaddress
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.terminal import excerpt

TOKEN_VARIABLE = "MODAK_SERVE_TOKEN"  # noqa: S105 (the name of a variable)
_SHORTEST = 16


@dataclass(frozen=True)
class Settings:
    """Where the service listens, what it permits, and where it keeps what it is given."""

    folder: Path
    """Scripts and collections lie there; it is private to the user."""
    sites: Sequence[Path] = ()
    host: str = "127.0.0.1"
    port: int = 8123
    token: str | None = None
    """What clients must send; required where others than this machine can connect."""
    public_url: str | None = None
    """Address in links, where a proxy stands before the service."""
    proxy: str | None = None
    """Address or network of that proxy, which alone says who the client is."""
    lifetime: int = 86400
    """Seconds for which links to scripts are valid."""
    most_bytes: int = 1024**2
    """Largest body of a request."""
    rate: float = 50.0
    """Requests per second from one address; bursts may be twice as many."""
    receive_seconds: float = 30.0
    """Seconds that the body of a request may take to arrive: each that waits takes the place of another."""
    grace: int = 30
    """Seconds that requests in progress get at the end."""

    def check(self) -> None:
        """Raise InputError for settings that are not safe."""
        if self.token is not None and len(self.token) < _SHORTEST:
            raise InputError(f"the token has fewer than {_SHORTEST} characters")
        if self.proxy is not None and not _is_network(self.proxy):
            raise InputError(f"--proxy {excerpt(self.proxy)}: not an IP address or a network such as 192.0.2.0/24")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host}: others than this machine could connect: name a file with a token by "
                f"--token-file, or set {TOKEN_VARIABLE}"
            )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches ``host``; a name other than localhost may be any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def read_token(file: Path | None) -> str | None:
    """Return the token of ``file``, or of the environment; InputError where others can read the file."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: the token cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{file}: others may read the token: run 'chmod 600 {file}'")
    if not text.isascii() or not text.isprintable() or not text:
        raise InputError(f"{file}: a token is one line of ASCII characters")
    return text
