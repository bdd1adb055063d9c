"""What a registry says of an image: its digest, its architecture, its size and its labels."""

import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from modak_deploy.errors import InputError, TargetError
from modak_deploy.images import manifest as answers
from modak_deploy.images.credentials import Login, login_for
from modak_deploy.model.image import Architecture
from modak_deploy.model.reference import Reference

if TYPE_CHECKING:
    import requests

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LARGEST = 8 * 1024 * 1024
"""Bytes of a manifest or a configuration; real ones have some kilobytes."""
_TIMEOUT = (15.0, 60.0)
"""Seconds to connect, and to wait for an answer."""
_WHOLE = 300.0
"""Seconds for a whole answer, which may come in drops."""
T = TypeVar("T", bound=answers.Part)


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


def resolve(reference: Reference, architecture: Architecture | None = "amd64", login: Login | None = None) -> Resolved:
    """Ask the image's registry for the digest of its variant for ``architecture``, and for what is inside.

    None is for an image that there is one of, whatever it is for.
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

        self.reference = reference
        self.login = login
        self.session = _session()
        self.token: str | None = None
        host = "registry-1.docker.io" if reference.registry == "docker.io" else reference.registry
        self.bases = [f"https://{host}", *([f"http://{host}"] if is_loopback(reference.registry) else [])]

    def resolve(self, architecture: Architecture | None) -> Resolved:
        """Return the manifest's digest and what it says."""
        wanted = self.reference.digest or self.reference.tag or "latest"
        digest, content = self._manifest(wanted)
        if "manifests" in content:
            digest, content = self._variant(self._part(content, answers.Index), architecture)
        manifest = self._part(content, answers.Manifest)
        layers = manifest.layers or []
        size = sum(layer.size for layer in layers)
        reference = self.reference.pinned(digest)
        if layers and layers[0].media_type == answers.SIF_LAYER:
            if self.reference.scheme == "docker":
                raise InputError(f"'{self.reference}' is a SIF image", hint="write 'oras://' for it")
            file = self._part(layers[0].model_dump(), answers.SifLayer)
            return Resolved(reference, None, size, sif_sha256=file.digest.removeprefix("sha256:"))
        if self.reference.scheme == "oras":
            raise InputError(f"'{self.reference}' is not a SIF image", hint="write 'docker://' for an image of layers")
        config = self._blob(self._part(manifest.config or {}, answers.Pointer).digest)
        result = config.architecture
        if architecture is not None and result not in (None, architecture):
            raise InputError(f"the image '{self.reference}' is for {result}, and {architecture} is needed")
        labels = (config.config.labels if config.config else None) or {}
        return Resolved(reference, result, size, labels)

    def _variant(self, index: answers.Index, architecture: Architecture | None) -> tuple[str, dict[str, Any]]:
        platforms = [(item, item.platform or answers.Platform()) for item in index.manifests]
        there = [item for item, p in platforms if p.architecture == architecture and p.os == "linux"]
        if not there:
            has = sorted({p.architecture for _, p in platforms} - {"unknown", ""})
            raise InputError(
                f"the image '{self.reference}' not found for {architecture}, only for {', '.join(has) or 'nothing'}"
            )
        return self._manifest(self._part(there[0].model_dump(), answers.Pointer).digest)

    def _manifest(self, name: str) -> tuple[str, dict[str, Any]]:
        body = self._get(f"manifests/{name}", {"Accept": ", ".join(_MANIFESTS)})
        return self._checked(body, name), self._json(body)

    def _blob(self, digest: str) -> answers.Configuration:
        body = self._get(f"blobs/{digest}", {})
        self._checked(body, digest)
        return self._part(self._json(body), answers.Configuration)

    def _checked(self, body: bytes, name: str) -> str:
        """Return the digest of an answer, which must be the one that it was asked by."""
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if name.startswith("sha256:") and name != digest:
            raise TargetError(
                f"the answer of {self.reference.registry} for '{self.reference}' does not match its digest"
            )
        return digest

    def _json(self, body: bytes) -> dict[str, Any]:
        try:
            return answers.parse_json(body)
        except ValueError:
            raise TargetError(f"{self.reference.registry} does not answer as a registry does") from None

    def _part(self, content: dict[str, Any], model: type[T]) -> T:
        try:
            return answers.parse(content, model)
        except ValueError as error:
            raise TargetError(
                f"{self.reference.registry} does not answer as a registry does for '{self.reference}': {error}"
            ) from None

    def _get(self, path: str, headers: Mapping[str, str]) -> bytes:
        import requests

        for base in list(self.bases):
            url = f"{base}/v2/{self.reference.repository}/{path}"
            try:
                with _reached(f"the registry {self.reference.registry}"):
                    response = self._ask(url, headers)
            except requests.exceptions.SSLError as error:
                if base is not self.bases[-1] and "certificate" not in str(error):
                    continue  # It does not speak TLS at all.
                raise TargetError(f"the certificate of {self.reference.registry} is not valid: {_why(error)}") from None
            self.bases = [base]
            with _reached(f"the registry {self.reference.registry}"):
                return self._body(response)
        raise TargetError(f"the registry {self.reference.registry} cannot be reached")

    def _ask(self, url: str, headers: Mapping[str, str]) -> "requests.Response":
        response = self._send(url, headers)
        # Who asks on another host, where the registry redirects to, gets no login.
        if response.status_code != 401 or urlsplit(response.url).netloc != urlsplit(url).netloc:
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
        scheme, host = _split(realm)
        if scheme != "https" and not (scheme == "http" and is_loopback(host)):
            name, where = self.reference.registry, _shown(realm)
            raise TargetError(f"the registry {name} requires the login in plain text to '{where}'")
        login = (self.login.user, self.login.password) if self.login else None
        with self.session.get(realm, params=fields, auth=login, timeout=_TIMEOUT, stream=True) as response:
            if response.status_code != 200:
                raise InputError(
                    f"the registry {self.reference.registry} does not accept "
                    f"{'the login kept for it' if self.login else 'requests without a login'} for '{self.reference}'"
                )
            body = _read(response, self.reference.registry)
        answer = self._part(self._json(body), answers.Token)
        return answer.token or answer.access_token or ""

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
            return _read(response, self.reference.registry)


def _from_library(reference: Reference, architecture: Architecture | None) -> Resolved:
    import requests

    if not reference.registry:
        raise InputError(f"'{reference}' names no server", hint="write library://HOST/ENTITY/COLLECTION/NAME:TAG")
    name = f"{reference.repository}:{(reference.digest or '').replace(':', '.') or reference.tag}"
    scheme = "http" if is_loopback(reference.registry) else "https"
    url = f"{scheme}://{reference.registry}/v1/images/{name}"
    try:
        with (
            _reached(f"the library {reference.registry}"),
            requests.get(
                url, params={"arch": architecture} if architecture else {}, timeout=_TIMEOUT, stream=True
            ) as response,
        ):
            body = _read(response, reference.registry) if response.status_code == 200 else None
    except requests.exceptions.SSLError as error:
        raise TargetError(f"the certificate of {reference.registry} is not valid: {_why(error)}") from None
    if body is None:
        raise TargetError(f"the library {reference.registry} does not have '{reference}' for {architecture}")
    try:
        result = answers.parse(answers.parse_json(body), answers.LibraryAnswer).data
    except ValueError:
        raise TargetError(f"{reference.registry} does not answer as a library does") from None
    matched = re.fullmatch(r"sha256\.([0-9a-f]{64})", result.hash)
    if matched is None:
        raise TargetError(f"the library {reference.registry} gives no SHA-256 for '{reference}'")
    pinned = reference.pinned(f"sha256:{matched[1]}")
    if reference.digest not in (None, pinned.digest):
        raise TargetError(f"the answer of {reference.registry} for '{reference}' does not match its digest")
    return Resolved(pinned, architecture, result.size or 0, sif_sha256=matched[1])


def _session() -> "requests.Session":
    """Return a session that sends no login but the registry's, and that to nobody but the registry.

    requests (2.34) takes logins of ``~/.netrc`` for each host, those that it is redirected to included, and puts them
    in the place of a registry's token.
    """
    import requests

    class Session(requests.Session):
        def rebuild_auth(self, prepared_request: "requests.PreparedRequest", response: "requests.Response") -> None:
            """Drop the login where a redirection leads to another host, and refuse one that leaves https."""
            before, after = (urlsplit(request.url or "") for request in (response.request, prepared_request))
            if after.scheme != "https" and before.scheme == "https":
                raise TargetError(f"{before.netloc} redirects to '{_shown(after.netloc)}' without https")
            if (before.scheme, before.netloc) != (after.scheme, after.netloc):
                prepared_request.headers.pop("Authorization", None)

    session = Session()
    session.auth = lambda request: request
    return session


@contextmanager
def _reached(server: str) -> Iterator[None]:
    """Make one error of all that a connection and what comes over it may raise; one of TLS is the caller's."""
    import requests
    import urllib3

    try:
        yield
    except (TargetError, InputError, requests.exceptions.SSLError):
        raise
    # ValueError: an address to which it redirects. UnicodeError: a header field. OSError: a connection cut in between.
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise TargetError(f"{server} cannot be reached: {_why(error)}") from None


def _read(response: "requests.Response", server: str) -> bytes:
    """Return the whole of an answer, which may be neither larger nor slower than any real one."""
    end = time.monotonic() + _WHOLE
    body = bytearray()
    while piece := response.raw.read(65536, decode_content=True):
        body += piece
        if len(body) > _LARGEST:
            raise TargetError(f"{server} does not answer as a registry does: it sends more than {_LARGEST} bytes")
        if time.monotonic() > end:
            raise TargetError(f"{server} cannot be reached: no whole answer in {_WHOLE:g} s")
    return bytes(body)


def _split(address: str) -> tuple[str, str]:
    """Return scheme and host of an address, blank where it is none."""
    try:
        return urlsplit(address)[:2]
    except ValueError:
        return "", ""


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:200])


def _why(error: Exception) -> str:
    """Return the innermost reason in one line."""
    text = " ".join(str(error).split())
    if match := re.search(r"\[Errno -?\d+\] ([^'\")]+)", text):
        return _shown(match[1].strip())
    if match := re.search(r"(certificate verify failed[^(\"']*|hostname '[^']+' doesn't match[^\"]*)", text):
        return _shown(match[1].strip(" :"))
    if "IncompleteRead" in text or "Connection broken" in text:
        return "the connection was cut in the middle of an answer"
    return "no answer in time" if "timed out" in text else type(error).__name__
