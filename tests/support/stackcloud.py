"""A project of the rig's OpenStack: a proxy that can fail before each public endpoint, and a real sshd for each server.

The services are real, and nova's hypervisor is a fake one that starts nothing. The proxy before nova reads the user
data of each server that is created, does what cloud-init does with the SSH keys in it, and starts an sshd at the
server's address, in the rig's own network namespace.
"""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import cloud as clouds

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("MODAK_BUILD_DIR") or ROOT / ".build")
CACHE = Path(os.environ.get("MODAK_OPENSTACK_CACHE") or "/var/tmp/modak-openstack")
SERVICES = {"identity": 5000, "compute": 8774, "network": 9696, "image": 9292}
"""Ports of the services; the proxies', which the catalogue names as public, are 10000 above."""
_CLONE_NEWNET = 0x40000000
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|modak-[0-9a-f]{16}")
_LIST = """
import json, sys, openstack
cloud = openstack.connect(cloud="inside")
print(json.dumps({
    "servers": [{"id": s.id, "name": s.name, "status": s.status, "metadata": dict(s.metadata),
                 "flavor": s.flavor.get("original_name") or s.flavor.get("name")} for s in cloud.compute.servers()],
    "groups": [{"id": g.id, "name": g.name, "description": g.description, "rules": g.security_group_rules}
               for g in cloud.network.security_groups() if g.name != "default"],
    "floating": [ip.floating_ip_address for ip in cloud.network.ips()],
    "ports": [p.id for p in cloud.network.ports() if (p.device_owner or "").startswith("compute:")],
}))
"""


def rig() -> Path:
    """Return the folder of the rig that is up; skip where there is none."""
    mark = BUILD / "openstack.folder"
    folder = Path(mark.read_text().strip()) if mark.exists() else None
    if folder is None or not (folder / "clouds.yaml").exists():
        pytest.skip("there is no OpenStack; run tests/real/openstack.sh up")
    return folder


@contextmanager
def its_network(folder: Path) -> Iterator[None]:
    """Put this thread, and what it starts, into the rig's network namespace."""
    parent = (folder / "pid").read_text().strip()
    first = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0]
    libc = clouds.ctypes.CDLL(None, use_errno=True)
    before, there = (os.open(f"/proc/{name}/ns/net", os.O_RDONLY) for name in ("self", first))
    try:
        assert libc.setns(there, _CLONE_NEWNET) == 0, os.strerror(clouds.ctypes.get_errno())
        yield
    finally:
        libc.setns(before, _CLONE_NEWNET)
        os.close(before)
        os.close(there)


@dataclass
class Call:
    """One call of an API, and what the proxy did to it."""

    service: str
    method: str
    path: str
    done: str = "forwarded"

    @property
    def kind(self) -> str:
        """The call without what differs between two deployments."""
        return f"{self.service} {self.method} {_ID.sub('ID', self.path)}"


@dataclass
class Machine:
    """What plays a server."""

    addresses: list[str]
    home: Path
    processes: list[subprocess.Popen[bytes]]


@dataclass
class Project:
    """The project, the proxies before its endpoints, and the machines that play servers."""

    rig: Path
    folder: Path
    calls: list[Call] = field(default_factory=list)
    fail: tuple[str, str] | None = None
    """Kind of the call whose first one is to fail, and how: ``refused`` before it is done, ``lost`` after it."""
    launched: list[str] = field(default_factory=list)
    machines: dict[str, Machine] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def answer(
        self, service: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return the answer to one call."""
        call = Call(service, method, path)
        with self._lock:
            self.calls.append(call)
            how = self.fail[1] if self.fail and self.fail[0] == call.kind else None
            if how:
                self.fail = None
        if how == "refused":
            call.done = how
            return _refusal(403)
        status, given, text = forward(SERVICES[service], method, path, body, headers)
        if status < 300:
            self._act(call, body, text, headers)
        if how == "lost":
            call.done = how
            return _refusal(500)
        return status, given, text

    def _act(self, call: Call, body: bytes, text: bytes, headers: dict[str, str]) -> None:
        if call.service == "compute" and call.method == "POST" and call.path.endswith("/servers"):
            number = json.loads(text)["server"]["id"]
            self.launched.append(number)
            data = base64.b64decode(json.loads(body)["server"]["user_data"]).decode()
            token = next(value for key, value in headers.items() if key.lower() == "x-auth-token")
            path = f"{call.path}/{number}"
            threading.Thread(target=self._start, args=(number, path, data, token), daemon=True).start()
        if call.service == "compute" and call.method == "DELETE" and "/servers/" in call.path:
            self._end(call.path.rpartition("/")[2])
        if call.service == "network" and call.method == "POST" and call.path.endswith("/floatingips"):
            floating = json.loads(text)["floatingip"]
            for machine in list(self.machines.values()):
                if floating["fixed_ip_address"] in machine.addresses:
                    self._listen(machine, floating["floating_ip_address"])

    def _start(self, number: str, path: str, user_data: str, token: str) -> None:
        """Do what cloud-init would do, with a real sshd at the server's address."""
        address = _fixed_address(path, token)
        if address is None:
            return
        content = yaml.safe_load(user_data)
        home = self.folder / number
        home.mkdir(mode=0o700)
        (home / "host_key").touch(mode=0o600)
        (home / "host_key").write_text(content["ssh_keys"]["ed25519_private"])
        (home / "authorized_keys").write_text("\n".join(content["ssh_authorized_keys"]) + "\n")
        (home / "sshd_config").write_text(
            f"HostKey {home}/host_key\nAuthorizedKeysFile {home}/authorized_keys\nStrictModes no\n"
            f"PasswordAuthentication no\nPermitRootLogin prohibit-password\nUsePAM no\nPidFile none\n"
            "Subsystem sftp internal-sftp\n"
        )
        (self.folder / "work").mkdir(exist_ok=True)
        machine = Machine([], home, [])
        with self._lock:
            self.machines[number] = machine
            self._listen(machine, address)

    def _listen(self, machine: Machine, address: str) -> None:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        machine.addresses.append(address)
        options = f"-D -e -f {machine.home}/sshd_config -o ListenAddress={address}:22"
        sshd = f"exec /usr/sbin/sshd {options} 2>>{machine.home}/log"
        if machine.processes:
            command = ["nsenter", f"--mount=/proc/{machine.processes[0].pid}/ns/mnt", "sh", "-c", sshd]
        else:
            # Its own /run and its own disk: no server sees what another one left.
            mounts = f"mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && mount -t tmpfs tmpfs {self.folder}/work"
            command = ["unshare", "--mount", "sh", "-c", f"{mounts} && touch /run/modak-ready && {sshd}"]
        machine.processes.append(subprocess.Popen(command, start_new_session=True))

    def _end(self, number: str) -> None:
        with self._lock:
            machine = self.machines.pop(number, None)
        for process in machine.processes if machine else []:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for address in machine.addresses if machine else []:
            subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=False)

    def end(self) -> None:
        """End all machines."""
        for number in list(self.machines):
            self._end(number)

    def listed(self) -> dict[str, list[Any]]:
        """Return what the project has, by openstacksdk at the services themselves."""
        environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self.rig / "clouds.yaml")}
        done = subprocess.run(
            [str(CACHE / "venv" / "bin" / "python"), "-c", _LIST], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, list[Any]] = json.loads(done.stdout)
        return found

    def is_empty(self) -> bool:
        """Return whether nothing is there: no server, security group, floating IP or port of a server."""
        return not any(self.listed().values())


def _refusal(status: int) -> tuple[int, list[tuple[str, str]], bytes]:
    text = json.dumps({"error": {"message": "the test says so", "code": status}}).encode()
    return status, [("Content-Type", "application/json")], text


def _fixed_address(path: str, token: str) -> str | None:
    """Return the address that nova gives the server; None where it gives none."""
    for _ in range(300):
        status, _headers, text = forward(SERVICES["compute"], "GET", path, b"", {"X-Auth-Token": token})
        server = json.loads(text).get("server", {}) if status == 200 else {}
        if status == 404 or server.get("status") == "ERROR":
            return None
        for network in server.get("addresses", {}).values():
            for entry in network:
                return str(entry["addr"])
        time.sleep(0.3)
    return None


def forward(
    port: int, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Send a call on to a service."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        dropped = ("content-length", "connection", "transfer-encoding")
        return answer.status, [(k, v) for k, v in answer.getheaders() if k.lower() not in dropped], text
    finally:
        connection.close()


def _handler(project: Project, service: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self._body()
            headers = {
                k: v for k, v in self.headers.items() if k.lower() not in ("content-length", "transfer-encoding")
            }
            headers["Connection"] = "close"
            status, given, text = project.answer(service, self.command, self.path, body, headers)
            with suppress(OSError):  # a controller that was killed reads no answer
                self.send_response(status)
                for key, value in given:
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _serve

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return Handler


@contextmanager
def running(folder: Path) -> Iterator[Project]:
    """Start the proxies in the rig's network namespace, in which this thread is then."""
    with ExitStack() as stack:
        where = rig()
        stack.enter_context(its_network(where))
        project = Project(where, folder)
        stack.callback(project.end)
        for service, port in SERVICES.items():
            server = ThreadingHTTPServer(("127.0.0.1", 10000 + port), _handler(project, service))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
        yield project


@dataclass
class Controller(clouds.Controller):
    """A user with a document, a key, a state folder, and the rig's clouds.yaml."""

    rig: Path = Path()

    def environment(self) -> dict[str, str]:
        """Return the environment, with the credentials in the provider's usual file."""
        kept = {k: v for k, v in super().environment().items() if not k.startswith(("AWS_", "OS_"))}
        collections = f"{ROOT / '.collections'}{os.pathsep}{CACHE / 'venv' / 'collections'}"
        own = self.folder / "clouds.yaml"
        return {
            **kept,
            "OS_CLIENT_CONFIG_FILE": str(own if own.exists() else self.rig / "clouds.yaml"),
            "ANSIBLE_COLLECTIONS_PATH": collections,
        }

    def write(self, document: dict[str, Any]) -> None:
        """Write the document, the inventory, the flavors and, once, the key."""
        super().write(document)
        python = CACHE / "venv" / "bin" / "python"
        (self.folder / "hosts").write_text(f"localhost ansible_connection=local ansible_python_interpreter={python}\n")
        (self.folder / "instances-lab.yaml").write_text(FLAVORS)

    def describe(self, project: Project, **cloud: Any) -> None:
        """Write a document with these changes in ``target.cloud``."""
        described = document(self.folder, **cloud)
        described["target"]["workspace"] = str(project.folder / "work" / "modak")
        self.write(described)


FLAVORS = "version: 1\ninstances:\n" + "".join(
    f"  - {{name: {name}, provider: openstack, vcpus: {cores}, memory: {memory}G, microarchitecture: x86_64_v3,\n"
    f'     prices: [{{region: RegionOne, hourly: {price}, currency: EUR, date: "2026-01-01", source: the test}}]}}\n'
    for name, cores, memory, price in (
        ("m1.small", 2, 2, 0),
        ("m1.large", 4, 8, 0.2),
        ("m1.vast", 64, 16, 0.1),
        ("m1.nowhere", 2, 900, 0.1),
        ("m1.absent", 2, 8, 0.05),
    )
)
"""All of the rig but m1.absent, which that cloud does not have."""


def document(folder: Path, **cloud: Any) -> dict[str, Any]:
    """Return the document of the probe on the rig, with these changes in ``target.cloud``."""
    described = {
        "provider": "openstack",
        "region": "RegionOne",
        "profile": "lab",
        "machine_image": "debian-12",
        "vpc": "inside",
        "access": ["192.0.2.0/24"],
        "instance_types": ["m1.small"],
        **cloud,
    }
    return {**clouds.probe(folder, "lab", described), "request": {"catalogue": ["instances-lab.yaml"]}}
