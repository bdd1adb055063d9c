"""Results that are stored as objects, by the command: the job is a real one, the storage a dictionary."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import cli
from modak_deploy.objects import transfer
from modak_deploy.objects.base import Head, Storage

URL = "s3://bucket/answer"


class Held(Storage):
    """A storage in memory."""

    scheme, package = "s3", "none"
    buckets: dict[str, dict[str, tuple[bytes, str]]] = {}

    def head(self, container: str, name: str) -> Head | None:
        content, sha256 = self.buckets[container].get(name, (None, ""))
        return None if content is None else Head("e", len(content), sha256)

    def has(self, container: str) -> bool:
        return container in self.buckets

    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        raise NotImplementedError

    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        self.buckets[container][name] = (file.read_bytes(), sha256)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr(Held, "buckets", {"bucket": {}})
    monkeypatch.setattr(transfer, "_STORAGES", {"s3": (__name__, "Held")})
    application = {"name": "hello", "executable": "sh", "arguments": ["-c", f"echo 42 >answer; pwd >>{tmp_path}/runs"]}
    stored = {"outputs": ["answer"], "objects": {"outputs": {"answer": URL}}}
    target = {"name": "here", "workspace": str(tmp_path / "target"), "polling": {"first": 0.1, "maximum": 0.3}}
    document = {"application": {**application, **stored}, "target": target}
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump(document))


def deploy(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["deploy", "deploy.yml", "--json", *options])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(out), err


def test_check_tells_what_would_be_stored(capsys: pytest.CaptureFixture[str]) -> None:
    code, value, err = deploy(capsys, "--check")
    assert (code, value["changed"], f"would store answer as {URL} after the job" in err) == (0, True, True), err
    assert deploy(capsys)[:1] == (0,)
    assert Held.buckets["bucket"]["answer"][0] == b"42\n"
    assert deploy(capsys, "--check")[1]["changed"] is False
    Held.buckets["bucket"].clear()
    code, value, err = deploy(capsys, "--check")
    assert (code, value["changed"], f"would store answer as {URL}, 3 bytes" in err) == (0, True, True), err
    assert Held.buckets["bucket"] == {}
    code, value, _ = deploy(capsys)
    assert (code, value["changed"], value["submitted"], list(Held.buckets["bucket"])) == (0, True, False, ["answer"])


def test_a_bucket_that_is_missing_is_said_before_the_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Held.buckets.clear()
    code, value, _ = deploy(capsys)
    assert (code, "s3://bucket not found, where answer would be stored" in str(value)) == (2, True), value
    assert not (tmp_path / "runs").exists()
