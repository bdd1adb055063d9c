"""A cloud on this machine: moto's EC2 behind a proxy that can fail, and a real sshd for each instance.

All of it is in a network namespace of its own, where the instances' public addresses are addresses of the loopback
device. moto's instances are records; the proxy reads the user data of each one that is created, does what cloud-init
does with the SSH keys in it, and starts an sshd at its address.
"""

import base64
import ctypes
import http.client
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlencode

import pytest
import yaml

from cloud_documents import probe

ROOT = Path(__file__).parents[2]
VENV = Path(os.environ.get("MODAK_CLOUD_VENV") or "/var/tmp/modak-cloud")
MOTO, PROXY = 5555, 5556
_CLONE_NEWNET = 0x40000000
_SIGNATURE = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=00"
_DONE = '<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>0</requestId></{action}Response>'
_HOST = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Its own processes too, so that none of them outlives the instance."""
_REFUSED = (
    '<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>the test says so</Message></Error>'
    "</Errors><RequestID>0</RequestID></Response>"
)


def needs_cloud() -> None:
    """Skip where moto, its collections or the rights are absent."""
    if not (VENV / "bin" / "moto_server").exists():
        pytest.skip(f"there is no moto in {VENV}; run tests/real/cloud.sh up")
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("sshd") is None:
        pytest.skip("network namespaces and sshd need root, ip and sshd")


@contextmanager
def own_network() -> Iterator[None]:
    """Put this thread, and what it starts, into a network namespace with nothing but a loopback device."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_CLONE_NEWNET):
            pytest.skip(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        libc.setns(before, _CLONE_NEWNET)
        os.close(before)


Running = subprocess.Popen[bytes]


@dataclass
class Call:
    """One call of the API: its action, and what the proxy did to it."""

    action: str
    done: str = "forwarded"


@dataclass
class Machine:
    """What plays an instance."""

    address: str
    process: subprocess.Popen[bytes]


@dataclass
class Cloud:
    """moto, the proxy before it, and the machines that play instances."""

    folder: Path
    calls: list[Call] = field(default_factory=list)
    fail: tuple[int, str] | None = None
    """Number of the call to fail, from 0, and how: ``refused`` before it is done, ``lost`` after it was done."""
    interrupt: tuple[int, Callable[[], None]] | None = None
    """Number of a call, from 0, and what is done once the provider has done it and its answer is not sent yet."""
    no_capacity: dict[str, str] = field(default_factory=dict)
    """Instance types that the provider does not have, zones with no room, and the error code that says so."""
    launched: list[str] = field(default_factory=list)
    """Instances that were ever created."""
    taken: list[str] = field(default_factory=list)
    """Spot instances that the provider has taken back."""
    machines: dict[str, Machine] = field(default_factory=dict)
    _answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def answer(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return the answer to one call."""
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        with self._lock:
            call = Call(form.get("Action", "?"))
            number = len(self.calls)
            self.calls.append(call)
            if self.fail == (number, "refused"):
                call.done = "refused"
                return 400, _REFUSED.format(code="UnauthorizedOperation").encode()
            token = form.get("ClientToken", "")
            if call.action == "RunInstances" and token in self._answers:
                return self._answers[token]  # as EC2 does, and moto does not: "Ensuring idempotency", EC2 API reference
            if call.action == "RunInstances" and (lacking := self._lacking(form)):
                call.done = "no capacity"
                code = self.no_capacity[lacking]
                return 500 if code.startswith("Insufficient") else 400, _REFUSED.format(code=code).encode()
            if call.action == "DeleteLaunchTemplateVersions":  # moto 5.1 does not have it; the template follows at once
                return 200, _DONE.format(action=call.action).encode()
            if call.action == "RunInstances" and (template := form.get("LaunchTemplate.LaunchTemplateName")):
                body = self._from_template(template, form)
            status, text = forward(body, headers)
            if call.action == "DescribeInstances":
                text = self._with_reasons(text.decode()).encode()
            if status == 200:
                self._act(call.action, form, text.decode())
                if token:
                    self._answers[token] = (status, text)
            if self.interrupt is not None and self.interrupt[0] == number:
                self.interrupt[1]()
            if self.fail == (number, "lost"):
                call.done = "lost"
                return 400, _REFUSED.format(code="RequestExpired").encode()
            return status, text

    def _lacking(self, form: dict[str, str]) -> str | None:
        """Return what lacks of a creation: its type, or its zone, of which amazon.aws names the default subnet."""
        wanted = [form.get("InstanceType", "")]
        if self.no_capacity and (subnet := form.get("NetworkInterface.1.SubnetId")):
            zones = describe("DescribeSubnets", **{"SubnetId.1": subnet})
            wanted += re.findall("<availabilityZone>([^<]+)<", zones)
        return next((each for each in wanted if each in self.no_capacity), None)

    def _from_template(self, template: str, form: dict[str, str]) -> bytes:
        """Return the call with the template's market, which EC2 takes from there, and moto does not."""
        versions = describe("DescribeLaunchTemplateVersions", LaunchTemplateName=template)
        # Without an interface EC2 would take the default VPC and its default security group, whatever came beside.
        assert {"NetworkInterface.1.SecurityGroupId.1", "NetworkInterface.1.SubnetId"} <= set(form), sorted(form)
        market = re.findall(r"<marketType>(\w+)</marketType>", versions)
        without = {key: value for key, value in form.items() if not key.startswith("LaunchTemplate.")}
        return urlencode({**without, **({"InstanceMarketOptions.MarketType": market[-1]} if market else {})}).encode()

    def _with_reasons(self, text: str) -> str:
        """Return a listing in which instances that were taken back have EC2's reason for it."""
        parts = re.split(r"(?=<reservationId>)", text)
        for index, part in enumerate(parts):
            if any(f"<instanceId>{number}<" in part for number in self.taken):
                parts[index] = part.replace("Client.UserInitiatedShutdown<", "Server.SpotInstanceTermination<")
        return "".join(parts)

    def take_back(self, number: str) -> None:
        """End a spot instance as EC2 does that needs its capacity."""
        with self._lock:
            self.taken.append(number)
            self._end(number)
            describe("TerminateInstances", **{"InstanceId.1": number})

    def templates(self) -> list[str]:
        """Return the launch templates."""
        return re.findall(r"<launchTemplateName>([^<]+)</launchTemplateName>", describe("DescribeLaunchTemplates"))

    def _act(self, action: str, form: dict[str, str], text: str) -> None:
        if action == "RunInstances":
            for number in re.findall(r"<instanceId>(i-[0-9a-f]+)</instanceId>", text):
                self.launched.append(number)
                self._start(number, base64.b64decode(form["UserData"]).decode())
        if action == "TerminateInstances":
            for number in re.findall(r"<instanceId>(i-[0-9a-f]+)</instanceId>", text):
                self._end(number)

    def _start(self, number: str, user_data: str) -> None:
        """Do what cloud-init would do, with a real sshd at the instance's address."""
        described = describe("DescribeInstances", **{"InstanceId.1": number})
        address = re.findall(r"<ipAddress>([0-9.]+)</ipAddress>", described)[0]
        content = yaml.safe_load(user_data)
        home = self.folder / number
        home.mkdir(mode=0o700)
        key = home / "host_key"
        key.touch(mode=0o600)
        key.write_text(content["ssh_keys"]["ed25519_private"])
        (home / "authorized_keys").write_text("\n".join(content["ssh_authorized_keys"]) + "\n")
        (home / "sshd_config").write_text(
            f"ListenAddress {address}:22\nHostKey {key}\nAuthorizedKeysFile {home}/authorized_keys\nStrictModes no\n"
            f"PasswordAuthentication no\nPermitRootLogin prohibit-password\nUsePAM no\nPidFile {home}/pid\n"
            "Subsystem sftp internal-sftp\n"
        )
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        # Its own /run and its own disk: no instance sees what another one left.
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        script = (
            f"mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && mount -t tmpfs tmpfs {work} && "
            f"touch /run/modak-ready && exec /usr/sbin/sshd -D -e -f {home}/sshd_config 2>{home}/log"
        )
        process = subprocess.Popen([*_HOST, "sh", "-c", script], start_new_session=True)
        self.machines[number] = Machine(address, process)

    def _end(self, number: str) -> None:
        machine = self.machines.pop(number, None)
        if machine is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(machine.process.pid, signal.SIGKILL)
        machine.process.wait()
        subprocess.run(["ip", "address", "del", f"{machine.address}/32", "dev", "lo"], check=False)

    def end(self) -> None:
        """End all machines."""
        for number in list(self.machines):
            self._end(number)

    def live(self) -> list[str]:
        """Return the instances that cost money."""
        text = describe("DescribeInstances")
        found = re.findall(r"<instanceId>(i-[0-9a-f]+)</instanceId>.*?<name>([a-z-]+)</name>", text, re.DOTALL)
        return [number for number, state in found if state not in ("terminated", "shutting-down")]

    def groups(self) -> list[str]:
        """Return the security groups that modak created."""
        return re.findall(r"<groupName>(modak-[0-9a-f]{16})</groupName>", describe("DescribeSecurityGroups"))

    def count(self, action: str) -> int:
        """Return how often an action was called."""
        return sum(call.action == action for call in self.calls)


def forward(body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Send a call on to moto."""
    connection = http.client.HTTPConnection("127.0.0.1", MOTO, timeout=60)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def describe(action: str, **parameters: str) -> str:
    """Ask moto itself."""
    body = urlencode({"Action": action, "Version": "2016-11-15", **parameters}).encode()
    headers = {"Authorization": _SIGNATURE, "Content-Type": "application/x-www-form-urlencoded", "Host": "ec2"}
    status, text = forward(body, headers)
    assert status == 200, text
    return text.decode()


@contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """Start moto and the proxy in the thread's network namespace."""
    cloud = Cloud(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, text = cloud.answer(body, {k: v for k, v in self.headers.items() if k.lower() != "content-length"})
            with suppress(OSError):  # a controller that was killed reads no answer
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with (folder / "moto.log").open("wb") as log:
        command = [str(VENV / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(MOTO)]
        moto = subprocess.Popen(command, stdout=log, stderr=log)
    server = ThreadingHTTPServer(("127.0.0.1", PROXY), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _wait_for_moto(moto)
        yield cloud
    finally:
        cloud.end()
        server.shutdown()
        server.server_close()
        moto.terminate()
        moto.wait()


def _wait_for_moto(moto: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while True:
        with suppress(OSError):
            describe("DescribeInstances")
            return
        assert moto.poll() is None, "moto ended"
        assert time.monotonic() < end, "moto does not answer"
        time.sleep(0.2)


@dataclass
class Controller:
    """A user with a document, a key and a state folder."""

    folder: Path
    state: str = "state"

    def environment(self) -> dict[str, str]:
        """Return the environment, with the credentials in the provider's usual variables."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "ANSIBLE_"))}
        return {
            **kept,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
            "AWS_URL": f"http://127.0.0.1:{PROXY}",
            "AWS_MAX_ATTEMPTS": "2",
            "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / '.collections'}{os.pathsep}{VENV / 'collections'}",
            "ANSIBLE_INVENTORY": str(self.folder / "hosts"),
            "ANSIBLE_NOCOLOR": "1",
            "XDG_STATE_HOME": str(self.folder / self.state),
            "HOME": str(self.folder),
        }

    def write(self, document: dict[str, Any]) -> None:
        """Write the document, the inventory and, once, the key."""
        if not (self.folder / "id").exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "id")]
            subprocess.run(command, check=True)
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(document))
        python = VENV / "bin" / "python"
        (self.folder / "hosts").write_text(f"localhost ansible_connection=local ansible_python_interpreter={python}\n")

    def command(self, playbook: str, *arguments: str) -> list[str]:
        """Return the command of a playbook."""
        settings = ["-e", "cloud_settle=1", "-e", "cloud_timeout=120"]
        return [
            str(ROOT / ".venv" / "bin" / "ansible-playbook"),
            f"modak.deploy.{playbook}",
            "-e",
            "deployment=deploy.yml",
            *settings,
            *arguments,
        ]

    def run(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook to its end."""
        return subprocess.run(
            self.command(playbook, *arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=600,
        )

    def started(self, playbook: str, output: IO[str] | int = subprocess.DEVNULL, *arguments: str) -> "Running":
        """Start a playbook in a process group of its own, which can be killed."""
        return subprocess.Popen(
            self.command(playbook, *arguments),
            cwd=self.folder,
            env=self.environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def document(folder: Path, **cloud: Any) -> dict[str, Any]:
    """Return the document of the probe on AWS, with these changes in ``target.cloud``."""
    image = re.findall(r"<imageId>(ami-[0-9a-f]+)</imageId>", describe("DescribeImages"))[0]
    described = {
        "provider": "aws",
        "region": "us-east-1",
        "machine_image": image,
        "access": ["192.0.2.0/24"],
        "instance_types": ["c7i.xlarge", "m7i.large"],
        **cloud,
    }
    return probe(folder, "aws", described)
