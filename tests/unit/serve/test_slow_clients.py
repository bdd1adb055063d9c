"""Clients that do not send what they have announced: each has the place of another for a while, and no longer."""

import asyncio
import json
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="pip install 'modak-deploy[serve]'")

from modak_deploy.serve.app import make_app
from modak_deploy.serve.settings import Settings

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "path": "/optimise",
    "raw_path": b"/optimise",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-length", b"1000")],
    "client": ("127.0.0.1", 1),
}


@pytest.mark.parametrize("pause", [60.0, 0.1], ids=["silent", "one byte now and then"])
def test_a_body_that_does_not_arrive(tmp_path: Path, pause: float) -> None:
    answered: list[dict[str, object]] = []
    begun = time.monotonic()

    async def receive() -> dict[str, object]:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b" ", "more_body": time.monotonic() - begun < 10}

    async def send(message: dict[str, object]) -> None:
        answered.append(message)

    asyncio.run(make_app(Settings(tmp_path, receive_seconds=0.5))(dict(SCOPE), receive, send))
    assert time.monotonic() - begun < 8
    assert answered[0]["status"] == 408
    assert (b"connection", b"close") in answered[0]["headers"]  # type: ignore[operator]
    detail = json.loads(answered[1]["body"])["detail"]  # type: ignore[arg-type]
    assert detail[0]["msg"] == "the body did not arrive within 0.5 s"
