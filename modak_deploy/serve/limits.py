"""What stands before every route: the token, the limits on size and rate, the log, and answers to what went wrong."""

import asyncio
import hmac
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modak_deploy.serve.body import Refusal, fault
from modak_deploy.serve.settings import Settings

LOG = logging.getLogger("modak_deploy.serve")
_MOST_CLIENTS = 10_000
_OPEN = {"/", "/health"}
_ADDITIONS = ("/scripts", "/infrastructures", "/scaling_models", "/container_mappings")


class JsonFormatter(logging.Formatter):
    """One JSON object for each line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``; the fields of a request stand beside the message."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Limits:
    """ASGI middleware around the application."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        """``settings`` hold the token and the limits."""
        self._app, self._settings = app, settings
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write one line of log about it; bodies and tokens are in none."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, started = time.monotonic(), 500, False

        async def watched(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        try:
            self._check_rate(scope)
            self._check_token(scope)
            body = await self._timely_body(scope, receive)
            await self._app(scope, _replayed(body, receive), watched)
        except Refusal as refusal:
            await answer_of(refusal)(scope, receive, watched)
        except Exception:
            LOG.exception("a request failed")
            if not started:
                failed = Refusal(500, [fault("the service failed; its log says why", "internal")])
                await answer_of(failed)(scope, receive, watched)
        finally:
            fields = {
                "client": _client(scope),
                "method": scope["method"],
                "path": scope["path"][:200],
                "status": status,
                "milliseconds": round((time.monotonic() - begun) * 1000, 1),
            }
            LOG.info("request", extra={"fields": fields})

    def _check_rate(self, scope: Scope) -> None:
        """Raise Refusal for more requests from one address than its bucket holds, which fills at the rate."""
        rate, now = self._settings.rate, time.monotonic()
        if rate <= 0:
            return
        most = max(1.0, 2 * rate)
        left, last = self._buckets.pop(_client(scope), (most, now))
        left = min(most, left + (now - last) * rate)
        self._buckets[_client(scope)] = (max(left - 1, 0.0) if left >= 1 else left, now)
        while len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = str(max(1, round((1 - left) / rate)))
            text = f"more than {rate:g} requests per second come from this address"
            raise Refusal(429, [fault(text, "too_many_requests")], {"Retry-After": wait})

    def _check_token(self, scope: Scope) -> None:
        path, token = scope["path"], self._settings.token
        adds = scope["method"] == "POST" and path in _ADDITIONS
        if token is None and adds:
            text = "entries become part of other people's jobs: start the service with a token to add any"
            raise Refusal(403, [fault(text, "forbidden")])
        if token is None or path in _OPEN:
            return
        headers = Headers(scope=scope)
        kind, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        if not given:
            text = "a token is needed: send it as 'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'"
            raise Refusal(401, [fault(text, "unauthorised")], {"WWW-Authenticate": "Bearer"})
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise Refusal(403, [fault("the token is not valid", "forbidden")])

    async def _timely_body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body, if it arrives in time."""
        receive_seconds = self._settings.receive_seconds
        try:
            async with asyncio.timeout(receive_seconds):
                return await self._body(scope, receive)
        except TimeoutError:
            late = fault(f"the body did not arrive within {receive_seconds:g} s", "timeout")
            raise Refusal(408, [late], {"Connection": "close"}) from None

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body, of which no more is read than is permitted."""
        most = self._settings.most_bytes
        length = Headers(scope=scope).get("content-length", "0")
        too_large = Refusal(413, [fault(f"the body is larger than {most} bytes", "too_large")])
        if length.isdecimal() and int(length[:20]) > most:
            raise too_large
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal(400, [fault("the connection ended within the body", "incomplete")])
            size += len(message.get("body", b""))
            if size > most:
                raise too_large
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("unknown", 0))[0])


def answer_of(refusal: Refusal) -> JSONResponse:
    """Return the answer for a refusal, in the form that clients of the job model know."""
    headers: Mapping[str, str] = refusal.headers
    return JSONResponse({"detail": refusal.faults}, status_code=refusal.status, headers=dict(headers))
