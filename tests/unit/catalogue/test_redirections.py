"""Where an address of a catalogue may lead: every hop counts, not the last one alone."""

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from modak_deploy.catalogue.site import fetch
from modak_deploy.errors import InputError


class Server(ThreadingHTTPServer):
    """Leads from each path of ``leads`` elsewhere, and has a file at any other; ``seen`` are requests with logins."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.leads: dict[str, str] = {}
        self.seen: list[tuple[str, str | None]] = []
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.address = f"{scheme}://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        target = self.server.leads.get(self.path)
        self.send_response(302 if target else 200)
        if target:
            self.send_header("Location", target)
        self.end_headers()
        self.wfile.write(b"version: 1\n")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(server: Server) -> Iterator[Server]:
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Server, Server]]:
    """Yield two servers with TLS and a plain one."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(_certificate())
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with ExitStack() as stack:
        first, other, plain = (stack.enter_context(running(Server(c))) for c in (certificate, certificate, None))
        yield first, other, plain


def _certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)


def test_a_plain_address_on_the_way_is_not_asked(servers: tuple[Server, Server, Server], tmp_path: Path) -> None:
    first, other, plain = servers
    first.leads["/images.yaml"] = f"{plain.address}/images.yaml"
    plain.leads["/images.yaml"] = f"{other.address}/images.yaml"
    with pytest.raises(InputError, match="leads to an address without https"):
        fetch(f"{first.address}/images.yaml", tmp_path / "cache")
    assert (plain.seen, other.seen) == ([], [])
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("scheme", ["http", "HTTP", "ftp"])
def test_a_plain_address_at_the_end_is_not_asked(
    servers: tuple[Server, Server, Server], tmp_path: Path, scheme: str
) -> None:
    first, _, plain = servers
    first.leads["/images.yaml"] = f"{plain.address.replace('http', scheme)}/images.yaml"
    with pytest.raises(InputError, match="leads to an address without https"):
        fetch(f"{first.address}/images.yaml", tmp_path)
    assert plain.seen == []


def test_a_login_is_not_passed_on(servers: tuple[Server, Server, Server], tmp_path: Path) -> None:
    first, other, _ = servers
    first.leads = {"/images.yaml": "/moved.yaml", "/moved.yaml": f"{other.address}/images.yaml"}
    path = fetch(first.address.replace("//", "//me:secret@") + "/images.yaml", tmp_path / "cache")
    assert path.read_text() == "version: 1\n"
    assert first.seen == [("/images.yaml", "Basic bWU6c2VjcmV0"), ("/moved.yaml", None)]
    assert other.seen == [("/images.yaml", None)]
