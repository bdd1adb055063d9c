"""Which redirections of a catalogue's address are followed."""

from email.message import Message
from typing import IO
from urllib.request import HTTPRedirectHandler, Request

from modak_deploy.errors import InputError


class Redirections(HTTPRedirectHandler):
    """Follows redirections of ``address``; where it is ``secure``, each of them must keep to https.

    To look at the last address alone is not enough: who answers for a plain one in between says where it goes on.
    """

    def __init__(self, address: str, *, secure: bool) -> None:
        self._address = address
        self._schemes = ("https://",) if secure else ("https://", "http://")

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """Return the next request; InputError where it may not be made."""
        fp.close()  # urllib would read all of it first, and it may be endless
        if not newurl.lower().startswith(self._schemes):
            raise InputError(f"'{self._address}' leads to an address without https", key="request.catalogue")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
