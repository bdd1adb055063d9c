"""Swift's answers as requests has them; openstacksdk itself is not needed."""

import gzip
from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.objects import swift
from modak_deploy.objects.swift import Swift

requests = pytest.importorskip("requests")
urllib3 = pytest.importorskip("urllib3")


class Cut(BytesIO):
    """A connection that breaks after its first bytes."""

    def read(self, *sizes: int | None) -> bytes:
        raise urllib3.exceptions.ProtocolError("the connection was closed")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[BytesIO, dict[str, str]], Swift]:
    def make(body: BytesIO, headers: dict[str, str]) -> Swift:
        answer = requests.Response()
        answer.status_code = 200
        answer.raw = urllib3.HTTPResponse(body, headers=headers, preload_content=False)
        store = SimpleNamespace(get=lambda *_path, **_options: answer)
        modules: dict[str, Any] = {
            "openstack": SimpleNamespace(connect=lambda **_chosen: SimpleNamespace(object_store=store)),
            "openstack.exceptions": SimpleNamespace(SDKException=ValueError, raise_from_response=lambda _answer: None),
            "keystoneauth1.exceptions": SimpleNamespace(ClientException=ValueError),
            "requests": requests,
            "urllib3.exceptions": urllib3.exceptions,
        }
        monkeypatch.setattr(swift, "import_module", modules.__getitem__)
        return Swift(None, None)

    return make


def test_an_object_with_an_encoding_is_read_as_it_is(answering: Callable[[BytesIO, dict[str, str]], Swift]) -> None:
    packed = gzip.compress(b"words\n" * 100)
    storage = answering(BytesIO(packed), {"Content-Encoding": "gzip"})
    assert b"".join(storage.read("bucket", "words.gz", "e")) == packed


def test_a_connection_that_breaks_is_an_error_of_the_storage(
    answering: Callable[[BytesIO, dict[str, str]], Swift],
) -> None:
    with pytest.raises(TargetError, match="swift://bucket/words cannot be fetched: the connection was closed"):
        list(answering(Cut(b"w"), {}).read("bucket", "words", "e"))
