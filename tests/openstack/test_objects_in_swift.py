"""Objects of a real Swift (tests/real/swift.sh), moved by openstacksdk for a job on this machine."""

import hashlib
import os
import subprocess
import sys
import uuid
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from rig import TOP

RIG = TOP / "tests" / "real" / "swift.sh"


class Container:
    """A container of its own for the test, asked without the library."""

    def __init__(self, folder: Path) -> None:
        self.endpoint = (folder / "endpoint").read_text().strip()
        self.packages = folder / "packages"
        self.name = f"modak-{uuid.uuid4().hex[:8]}"
        self.ask("PUT", "")

    def ask(self, method: str, name: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(f"{self.endpoint}/{self.name}{name}")
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        connection.request(method, parts.path, body)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()


@pytest.fixture
def container() -> Container:
    done = subprocess.run([RIG, "status"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("needs Swift: tests/real/swift.sh up")
    return Container(Path(done.stdout.strip()))


class User:
    """A folder with a document whose job reads one object and is stored as another."""

    def __init__(self, folder: Path, container: Container) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "OS_AUTH_TYPE": "none",
            "OS_ENDPOINT": container.endpoint,
            "PYTHONPATH": f"{TOP}:{container.packages}",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def write(self, program: str, objects: dict[str, Any]) -> None:
        application = {"name": "probe", "type": "hpc", "executable": "sh", "arguments": ["-c", program]}
        document = {
            "application": {**application, "outputs": ["answer"], "objects": objects},
            "target": {"name": "here", "type": "machine", "workspace": str(self.folder / "workspace")},
        }
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(document))

    def deploy(self) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "modak_deploy", "deploy", "deploy.yml"]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture
def user(tmp_path: Path, container: Container) -> User:
    return User(tmp_path, container)


def test_objects_are_moved_once(container: Container, user: User) -> None:
    url = f"swift://{container.name}"
    moved = {"inputs": {"data/words": f"{url}/in/w"}, "outputs": {"answer": f"{url}/out/answer"}}
    user.write("tr a-z A-Z <data/words >answer", moved)
    missing = user.deploy()
    assert (missing.returncode, "/in/w not found" in missing.stderr) == (2, True), missing.stderr
    assert container.ask("PUT", "/in/w", b"from the container\n")[0] == 201
    done = user.deploy()
    assert done.returncode == 0, done.stderr
    status, headers, body = container.ask("GET", "/out/answer")
    assert (status, body) == (200, b"FROM THE CONTAINER\n")
    assert headers["x-object-meta-modak-sha256"] == hashlib.sha256(body).hexdigest()
    again = user.deploy()
    assert (again.returncode, again.stdout.rstrip().endswith("(unchanged)")) == (0, True), again.stdout
    assert "storing" not in again.stderr
    assert "fetching" not in again.stderr
    assert container.ask("PUT", "/in/w", b"changed\n")[0] == 201
    assert user.deploy().returncode == 0
    assert container.ask("GET", "/out/answer")[2] == b"CHANGED\n"


def test_a_container_that_is_not_there_is_told(user: User) -> None:
    user.write("echo 1 >answer", {"outputs": {"answer": "swift://nowhere/out/answer"}})
    done = user.deploy()
    assert done.returncode != 0
    assert "swift://nowhere not found, where answer would be stored" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
