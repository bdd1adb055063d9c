"""Swift, by openstacksdk; ``profile`` is a cloud of ``clouds.yaml``, and the OS_* variables count without one."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from modak_deploy.objects.base import CHECKSUM, PIECE, Head, Storage, missing, reported, text_of

_HEADER = f"x-object-meta-{CHECKSUM}"


class Swift(Storage):
    """The object storage of OpenStack."""

    scheme: ClassVar[str] = "swift"
    package: ClassVar[str] = "openstacksdk<4.8"

    def __init__(self, profile: str | None, region: str | None) -> None:
        super().__init__(profile, region)
        try:
            openstack, exceptions = import_module("openstack"), import_module("openstack.exceptions")
            transport = import_module("keystoneauth1.exceptions").ClientException
            read = import_module("requests").RequestException
            raw = import_module("urllib3.exceptions").HTTPError
        except ImportError:
            raise missing(self.package, self.scheme) from None
        self._errors: tuple[type[Exception], ...] = (exceptions.SDKException, transport, read, raw)
        self._check: Any = exceptions.raise_from_response
        with reported(self._errors, "swift", "cannot be used"):
            self._cloud: Any = openstack.connect(cloud=profile, region_name=region)

    def head(self, container: str, name: str) -> Head | None:
        """See Storage."""
        with reported(self._errors, f"swift://{container}/{name}", "cannot be queried"):
            answer = self._cloud.object_store.head(_path(container, name))
            if answer.status_code == 404:
                return None
            self._check(answer)
        headers = answer.headers
        etag = text_of(headers.get("etag")).strip('"')
        return Head(etag, int(headers.get("content-length") or 0), headers.get(_HEADER))

    def has(self, container: str) -> bool:
        """See Storage; whoever may store objects need not have the right to ask for their container."""
        with reported(self._errors, f"swift://{container}", "cannot be queried"):
            answer = self._cloud.object_store.head(f"/{quote(container)}")
            if answer.status_code not in (403, 404):
                self._check(answer)
        return bool(answer.status_code != 404)

    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        """See Storage."""
        with reported(self._errors, f"swift://{container}/{name}", "cannot be fetched"):
            headers = {"If-Match": f'"{etag}"'}
            answer = self._cloud.object_store.get(_path(container, name), headers=headers, stream=True)
            self._check(answer)
            # requests' own iter_content would decompress an object that has a Content-Encoding.
            yield from answer.raw.stream(PIECE, decode_content=False)

    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        """See Storage; a file of more than the storage's limit for a segment becomes several, with a manifest."""
        with reported(self._errors, f"swift://{container}/{name}", "cannot be stored"):
            # openstacksdk 4.7 (object_store/v1/_proxy.py, create_object) neither quotes the name nor says that there is
            # no such container.
            self._check(self._cloud.object_store.head(f"/{quote(container)}"))
            headers = {_HEADER: sha256}
            self._cloud.create_object(container, quote(name), filename=str(file), generate_checksums=False, **headers)


def _path(container: str, name: str) -> str:
    return f"/{quote(container)}/{quote(name)}"
