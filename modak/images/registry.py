"""What a registry says of an image: its digest, its architecture, its size and its labels."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from modak.errors import InputError, TargetError
from modak.images.credentials import Login, login_for
from modak.images.reference import Reference
from modak.model.image import Architecture

if TYPE_CHECKING:
    import requests

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
_LARGEST = 8 * 1024 * 1024
"""Bytes of a manifest or a configuration; real ones have some kilobytes."""
_TIMEOUT = (15.0, 60.0)
"""Seconds to connect, and to wait for an answer."""


@dataclass(frozen=True)
class Resolved:
    """An image, pinned, and what its registry says of it."""

    reference: Reference
    architecture: str | None
    size: int
    """Bytes to download."""
    labels: Mapping[str, str] = field(default_factory=dict)
    sif_sha256: str | None = None
    """Hash of the SIF file, where the registry holds one."""

    @property
    def digest(self) -> str:
        """Digest of the manifest, or of the file in a library."""
        return self.reference.digest or ""


def resolve(reference: Reference, architecture: Architecture = "amd64", login: Login | None = None) -> Resolved:
    """Ask the image's registry for the digest of its variant for ``architecture``, and for what is inside.

    A reference with a digest is checked against it. ``login`` is looked up where it is not given. TargetError when the
    registry cannot be reached or does not have the image, InputError when it has it for other processors only or asks
    for a login.
    """
    if reference.scheme == "library":
        return _from_library(reference, architecture)
    if reference.scheme not in ("docker", "oras"):
        raise InputError(f"'{reference}' is in no registry")
    return _Registry(reference, login or login_for(reference.registry)).resolve(architecture)


def is_loopback(registry: str) -> bool:
    """Tell whether ``registry`` is this machine, to which plain HTTP is permitted, as docker does it."""
    host = re.sub(r":\d+$", "", registry).strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class _Registry:
    """A client of the distribution API for one repository."""

    def __init__(self, reference: Reference, login: Login | None) -> None:
        import requests

        self.reference = reference
        self.login = login
        self.session = requests.Session()
        self.token: str | None = None
        host = "registry-1.docker.io" if reference.registry == "docker.io" else reference.registry
        self.bases = [f"https://{host}", *([f"http://{host}"] if is_loopback(reference.registry) else [])]

    def resolve(self, architecture: Architecture) -> Resolved:
        """Return the manifest's digest and what it says."""
        wanted = self.reference.digest or self.reference.tag or "latest"
        digest, manifest = self._manifest(wanted)
        if "manifests" in manifest:
            digest, manifest = self._variant(manifest, architecture)
        layers = manifest.get("layers") or []
        size = sum(int(layer.get("size", 0)) for layer in layers)
        reference = self.reference.pinned(digest)
        if layers and layers[0].get("mediaType") == _SIF_LAYER:
            if self.reference.scheme == "docker":
                raise InputError(f"'{self.reference}' is a SIF image: write 'oras://' for it")
            return Resolved(reference, None, size, sif_sha256=str(layers[0]["digest"]).removeprefix("sha256:"))
        if self.reference.scheme == "oras":
            raise InputError(f"'{self.reference}' is no SIF image: write 'docker://' for an image of layers")
        config = self._blob(str((manifest.get("config") or {}).get("digest", "")))
        found = config.get("architecture")
        if found not in (None, architecture):
            raise InputError(f"the image '{self.reference}' is for {found}, and {architecture} is needed")
        labels = (config.get("config") or {}).get("Labels") or {}
        return Resolved(reference, found, size, {str(k): str(v) for k, v in labels.items()})

    def _variant(self, index: Mapping[str, Any], architecture: Architecture) -> tuple[str, dict[str, Any]]:
        platforms = [(item, item.get("platform") or {}) for item in index["manifests"]]
        there = [item for item, p in platforms if p.get("architecture") == architecture and p.get("os") == "linux"]
        if not there:
            has = sorted({str(p.get("architecture")) for _, p in platforms} - {"unknown", "None"})
            raise InputError(
                f"the image '{self.reference}' is not there for {architecture}, only for {', '.join(has) or 'nothing'}"
            )
        return self._manifest(str(there[0]["digest"]))

    def _manifest(self, name: str) -> tuple[str, dict[str, Any]]:
        body = self._get(f"manifests/{name}", {"Accept": ", ".join(_MANIFESTS)})
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if name.startswith("sha256:") and name != digest:
            raise TargetError(
                f"{self.reference.registry} sent for '{self.reference}' something else than its digest says"
            )
        return digest, self._json(body)

    def _blob(self, digest: str) -> dict[str, Any]:
        body = self._get(f"blobs/{digest}", {})
        if digest != f"sha256:{hashlib.sha256(body).hexdigest()}":
            raise TargetError(
                f"{self.reference.registry} sent for '{self.reference}' something else than its digest says"
            )
        return self._json(body)

    def _json(self, body: bytes) -> dict[str, Any]:
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise TargetError(f"{self.reference.registry} does not answer as a registry does")
        return content

    def _get(self, path: str, headers: Mapping[str, str]) -> bytes:
        import requests

        for base in list(self.bases):
            url = f"{base}/v2/{self.reference.repository}/{path}"
            try:
                response = self._ask(url, headers)
            except requests.exceptions.SSLError as error:
                if base is not self.bases[-1] and "certificate" not in str(error):
                    continue  # It does not speak TLS at all.
                raise TargetError(f"the certificate of {self.reference.registry} is not valid: {_why(error)}") from None
            except requests.exceptions.RequestException as error:
                raise TargetError(f"the registry {self.reference.registry} cannot be reached: {_why(error)}") from None
            self.bases = [base]
            return self._body(response)
        raise TargetError(f"the registry {self.reference.registry} cannot be reached")

    def _ask(self, url: str, headers: Mapping[str, str]) -> "requests.Response":
        response = self._send(url, headers)
        if response.status_code != 401:
            return response
        challenge = response.headers.get("WWW-Authenticate", "")
        response.close()
        if challenge.lower().startswith("bearer "):
            self.token = self._fetch_token(challenge)
            return self._send(url, headers)
        if self.login is None:
            raise InputError(f"the registry {self.reference.registry} asks for a login: log in with podman or docker")
        return self._send(url, headers, basic=True)

    def _send(self, url: str, headers: Mapping[str, str], *, basic: bool = False) -> "requests.Response":
        extra = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        login = (self.login.user, self.login.password) if basic and self.login else None
        return self.session.get(url, headers={**headers, **extra}, auth=login, timeout=_TIMEOUT, stream=True)

    def _fetch_token(self, challenge: str) -> str:
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = fields.pop("realm", "")
        scheme, host = urlsplit(realm)[:2]
        if scheme != "https" and not (scheme == "http" and is_loopback(host)):
            raise TargetError(f"the registry {self.reference.registry} wants the login sent in the clear to '{realm}'")
        login = (self.login.user, self.login.password) if self.login else None
        response = self.session.get(realm, params=fields, auth=login, timeout=_TIMEOUT)
        if response.status_code != 200:
            raise InputError(
                f"the registry {self.reference.registry} does not accept "
                f"{'the login kept for it' if self.login else 'requests without a login'} for '{self.reference}'"
            )
        answer = self._json(response.content)
        return str(answer.get("token") or answer.get("access_token") or "")

    def _body(self, response: "requests.Response") -> bytes:
        with response:
            if response.status_code in (401, 403):
                raise InputError(f"the registry {self.reference.registry} refuses the login kept for it")
            if response.status_code == 404:
                raise TargetError(f"the registry {self.reference.registry} does not have '{self.reference}'")
            if response.status_code != 200:
                raise TargetError(
                    f"the registry {self.reference.registry} answers {response.status_code} for '{self.reference}'"
                )
            body: bytes = response.raw.read(_LARGEST + 1, decode_content=True)
        if len(body) > _LARGEST:
            raise TargetError(f"{self.reference.registry} does not answer as a registry does")
        return body


def _from_library(reference: Reference, architecture: Architecture) -> Resolved:
    import requests

    if not reference.registry:
        raise InputError(f"'{reference}' names no server: write library://HOST/ENTITY/COLLECTION/NAME:TAG")
    name = f"{reference.repository}:{(reference.digest or '').replace(':', '.') or reference.tag}"
    scheme = "http" if is_loopback(reference.registry) else "https"
    try:
        response = requests.get(
            f"{scheme}://{reference.registry}/v1/images/{name}", params={"arch": architecture}, timeout=_TIMEOUT
        )
        found = response.json()["data"] if response.status_code == 200 else None
    except requests.exceptions.RequestException as error:
        raise TargetError(f"the library {reference.registry} cannot be reached: {_why(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise TargetError(f"{reference.registry} does not answer as a library does") from None
    if found is None:
        raise TargetError(f"the library {reference.registry} does not have '{reference}' for {architecture}")
    matched = re.fullmatch(r"sha256\.([0-9a-f]{64})", str(found.get("hash")))
    if matched is None:
        raise TargetError(f"the library {reference.registry} gives no SHA-256 for '{reference}'")
    pinned = reference.pinned(f"sha256:{matched[1]}")
    return Resolved(pinned, architecture, int(found.get("size") or 0), sif_sha256=matched[1])


def _why(error: Exception) -> str:
    """Return the innermost reason in one line."""
    text = " ".join(str(error).split())
    if match := re.search(r"\[Errno -?\d+\] ([^'\")]+)", text):
        return match[1].strip()
    if match := re.search(r"(certificate verify failed[^(\"']*|hostname '[^']+' doesn't match[^\"]*)", text):
        return match[1].strip(" :")
    return "no answer in time" if "timed out" in text else type(error).__name__
