"""Limits on requests, as ASGI middleware: their size, and the time in which they must arrive."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Limits:
    """Reads the body of a request before the application sees it: neither uvicorn nor MLServer limit it.

    A body that is compressed is refused: MLServer (1.7.1, rest/requests.py) unpacks any size of it.
    """

    def __init__(self, application: Application, *, largest: int, seconds: float) -> None:
        """``largest``: bytes of a body; ``seconds``: time in which it must be there."""
        self._application = application
        self._largest = largest
        self._seconds = seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See the ASGI specification, 3.0."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._application(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            await _refuse(send, 415, "compressed requests are not supported; send the body as it is")
            return
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self._largest:
            # A client that still sends when the connection is closed may lose the answer to the reset (RFC 9112, 9.6).
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._discard(receive), self._seconds)
            await _refuse(send, 413, f"the request is larger than {self._largest} bytes")
            return
        try:
            body = await asyncio.wait_for(self._body(receive), self._seconds)
        except TimeoutError:
            await _refuse(send, 408, f"the request did not arrive within {self._seconds:g} seconds")
            return
        if body is None:  # the client is gone
            return
        if len(body) > self._largest:
            await _refuse(send, 413, f"the request is larger than {self._largest} bytes")
            return
        given = False

        async def once() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._application(scope, once, send)

    async def _discard(self, receive: Receive) -> None:
        rest = 4 * self._largest
        while rest > 0:
            message = await receive()
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return
            rest -= len(message.get("body", b""))

    async def _body(self, receive: Receive) -> bytes | None:
        parts = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts += message.get("body", b"")
            if not message.get("more_body") or len(parts) > self._largest:
                return bytes(parts)


async def _refuse(send: Send, status: int, problem: str) -> None:
    body = json.dumps({"error": problem}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    # What remains of the body is not read, so that the connection cannot be used again.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
