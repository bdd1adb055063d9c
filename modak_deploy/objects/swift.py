"""Swift, by openstacksdk; ``profile`` is a cloud of ``clouds.yaml``, and the OS_* variables count without one."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from modak_deploy.objects.base import CHECKSUM, PIECE, Head, Storage, missing, text_of, told

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
        except ImportError:
            raise missing(self.package, self.scheme) from None
        self._errors: tuple[type[Exception], ...] = (exceptions.SDKException, transport, read)
        with told(self._errors, "swift", "cannot be used"):
            self._cloud: Any = openstack.connect(cloud=profile, region_name=region)

    def head(self, container: str, name: str) -> Head | None:
        """See Storage."""
        with told(self._errors, f"swift://{container}/{name}", "cannot be queried"):
            headers = self._cloud.get_object_metadata(container, name)
        if headers is None:
            return None
        known = {key.lower(): value for key, value in headers.items()}
        size = int(known.get("content-length") or 0)
        return Head(text_of(known.get("etag")).strip('"'), size, known.get(_HEADER))

    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        """See Storage."""
        with told(self._errors, f"swift://{container}/{name}", "cannot be fetched"):
            yield from self._cloud.stream_object(container, name, resp_chunk_size=PIECE)

    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        """See Storage."""
        with told(self._errors, f"swift://{container}/{name}", "cannot be stored"):
            self._cloud.create_object(container, name, filename=str(file), **{_HEADER: sha256})
