"""Objects of S3 as moto has it: on this machine by the command line, on an instance by the playbooks."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud import MOTO, VENV, Cloud, Controller

BUCKET = "modak-data"
SIGNATURE = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
NEEDED = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")


def s3(method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Ask moto itself."""
    connection = HTTPConnection("127.0.0.1", MOTO, timeout=60)
    connection.request(method, f"/{BUCKET}{path}", body, {"Authorization": SIGNATURE, "Host": "s3.amazonaws.com"})
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.fixture
def bucket(cloud: Cloud) -> Iterator[None]:
    assert s3("PUT", "")[0] == 200
    yield
    for key in ("words", "runs/answer"):
        s3("DELETE", f"/{key}")
    assert s3("DELETE", "")[0] == 204


@pytest.fixture
def environment(controller: Controller, tmp_path: Path) -> dict[str, str]:
    """A user whose Python has modak and boto3."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (there,) = (VENV / "lib").glob("python3*/site-packages")
    for name in NEEDED:
        (packages / name).symlink_to(there / name)
    own = controller.environment()
    storage = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{MOTO}", "AWS_DEFAULT_REGION": "us-east-1"}
    return {
        **own,
        **storage,
        "PYTHONPATH": f"{own['PYTHONPATH']}:{packages}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.fixture
def document(controller: Controller) -> dict[str, Any]:
    described = yaml.safe_load((controller.folder / "deploy.yml").read_text())
    described["application"] |= {
        "arguments": ["-c", "tr a-z A-Z <data/words >answer; env >environment"],
        "outputs": ["answer", "environment"],
        "objects": {
            "inputs": {"data/words": f"s3://{BUCKET}/words"},
            "outputs": {"answer": f"s3://{BUCKET}/runs/answer"},
            "limit": "1 MiB",
        },
    }
    return described


def ran(controller: Controller, environment: dict[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=controller.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_objects_are_moved_once(
    bucket: None, controller: Controller, document: dict[str, Any], environment: dict[str, str]
) -> None:
    document["target"] = {"name": "here", "type": "machine", "workspace": str(controller.folder / "workspace")}
    controller.write(document)

    def modak(*words: str) -> "subprocess.CompletedProcess[str]":
        return ran(controller, environment, sys.executable, "-m", "modak_deploy", *words)

    missing = modak("deploy", "deploy.yml")
    assert (missing.returncode, f"s3://{BUCKET}/words not found" in missing.stderr) == (2, True), missing.stderr
    s3("PUT", "/words", b"from the bucket\n")
    checked = modak("deploy", "deploy.yml", "--check")
    assert checked.returncode == 0, checked.stderr
    assert f"fetching s3://{BUCKET}/words, 16 bytes" in checked.stderr + checked.stdout
    assert f"would store answer as s3://{BUCKET}/runs/answer" in checked.stderr + checked.stdout
    assert s3("GET", "/runs/answer")[0] == 404
    done = modak("deploy", "deploy.yml")
    assert done.returncode == 0, done.stderr
    assert "fetching" not in done.stderr + done.stdout
    status, headers, body = s3("GET", "/runs/answer")
    assert (status, body) == (200, b"FROM THE BUCKET\n")
    assert headers["x-amz-meta-modak-sha256"] == hashlib.sha256(body).hexdigest()
    (kept,) = json.loads((controller.folder / "results" / "probe" / "objects.json").read_text())
    assert kept["sha256"] == hashlib.sha256(body).hexdigest()
    again = modak("deploy", "deploy.yml")
    assert (again.returncode, "storing" in again.stderr + again.stdout) == (0, False), again.stderr
    assert again.stdout.rstrip().endswith("(unchanged)"), again.stdout

    s3("PUT", "/words", b"changed\n")
    changed = modak("deploy", "deploy.yml")
    assert changed.returncode == 0, changed.stderr
    assert s3("GET", "/runs/answer")[2] == b"CHANGED\n"
    document["application"]["objects"]["limit"] = "4 B"
    controller.write(document)
    refused = modak("deploy", "deploy.yml")
    assert (refused.returncode, "no more than 4 are moved" in refused.stderr) == (2, True), refused.stderr


def test_no_credential_reaches_the_instance(
    bucket: None, cloud: Cloud, controller: Controller, document: dict[str, Any], environment: dict[str, str]
) -> None:
    s3("PUT", "/words", b"from the bucket\n")
    controller.write(document)
    done = ran(controller, environment, *controller.command("deploy"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert s3("GET", "/runs/answer")[2] == b"FROM THE BUCKET\n"
    results = controller.folder / "results" / "probe"
    assert "AWS_" not in (results / "environment").read_text()
    texts = [done.stdout, *(path.read_text() for path in results.iterdir() if path.is_file())]
    assert [text for text in texts if "secret-of-the-test" in text] == []
    again = ran(controller, environment, *controller.command("deploy"))
    assert (again.returncode, "storing" in again.stdout, len(cloud.launched)) == (0, False, 1), again.stdout
    assert ran(controller, environment, *controller.command("undeploy")).returncode == 0
    assert (cloud.live(), cloud.groups()) == ([], [])
