"""Objects are moved once, within a limit, with their checksums; the storage here is a dictionary."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from modak_deploy.documents import find_sources
from modak_deploy.documents.objectcopies import RECORD, copied, folder_of
from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.application import Application
from modak_deploy.objects import check_outputs, fetch_objects, find_copies, store_objects, transfer
from modak_deploy.objects.base import Head, Storage

URL = "s3://bucket/words"


class Held(Storage):
    """A storage in memory."""

    scheme, package = "s3", "none"
    contents: dict[str, bytes] = {}
    checksums: dict[str, str] = {}
    reads: list[str] = []
    cut = False
    refuses = False

    def head(self, container: str, name: str) -> Head | None:
        content = self.contents.get(f"{container}/{name}")
        if content is None:
            return None
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return Head(etag, len(content), self.checksums.get(f"{container}/{name}"))

    def has(self, container: str) -> bool:
        return any(path.startswith(f"{container}/") for path in self.contents)

    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        self.reads.append(name)
        yield self.contents[f"{container}/{name}"][: 2 if self.cut else None]

    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        if self.refuses:
            return
        self.contents[f"{container}/{name}"] = file.read_bytes()
        self.checksums[f"{container}/{name}"] = sha256


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Held]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Held, "contents", {"bucket/words": b"from the bucket\n"})
    monkeypatch.setattr(Held, "checksums", {})
    monkeypatch.setattr(Held, "reads", [])
    monkeypatch.setattr(transfer, "_STORAGES", {"s3": (__name__, "Held")})
    monkeypatch.setattr(transfer, "import_module", lambda _name: type("Module", (), {"Held": Held}))
    return Held


@pytest.fixture
def notices() -> list[str]:
    return []


def application(**objects: object) -> Application:
    return Application.model_validate(
        {"name": "x", "executable": "true", "outputs": ["answer"], "objects": objects or {"inputs": {"data/w": URL}}}
    )


def folder(application: Application) -> Path:
    assert application.objects is not None
    return folder_of(application.objects, URL)


def test_an_object_is_fetched_once_and_is_a_source(held: type[Held], notices: list[str]) -> None:
    asked = application()
    with pytest.raises(InputError, match="was not fetched"):
        find_sources(asked, [])
    (first,) = fetch_objects(asked.objects, notices.append)
    (again,) = fetch_objects(asked.objects, notices.append)
    assert (first.changed, again.changed, held.reads) == (True, False, ["words"])
    assert notices == [f"fetching {URL}, 16 bytes"]
    (source,) = find_sources(asked, [])
    assert (source.source.path, source.source.sha256) == ("data/w", hashlib.sha256(b"from the bucket\n").hexdigest())
    held.contents["bucket/words"] = b"other\n"
    assert fetch_objects(asked.objects, notices.append)[0].changed
    assert find_sources(asked, [])[0].local.read_bytes() == b"other\n"
    assert {path.stat().st_mode & 0o777 for path in folder(asked).iterdir()} == {0o600}


def test_what_arrives_cut_off_is_no_copy(held: type[Held], notices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "cut", True)
    with pytest.raises(TargetError, match="another size than the 16 bytes"):
        fetch_objects(application().objects, notices.append)
    with pytest.raises(InputError, match="was not fetched"):
        find_sources(application(), [])
    assert [path.name for path in folder(application()).iterdir()] == []


def test_a_checksum_that_does_not_match_is_no_copy(held: type[Held], notices: list[str]) -> None:
    held.checksums["bucket/words"] = "0" * 64
    with pytest.raises(TargetError, match="its metadata says 000"):
        fetch_objects(application().objects, notices.append)
    with pytest.raises(InputError, match="was not fetched"):
        find_sources(application(), [])


def test_what_was_deployed_is_looked_for_by_the_copies_that_are_here(held: type[Held], notices: list[str]) -> None:
    asked = application()
    assert [moved.path for moved in find_copies(asked.objects, notices.append)] == ["data/w"]
    held.contents["bucket/words"] = b"changed\n"
    assert find_copies(asked.objects, notices.append) == []
    assert find_sources(asked, [])[0].local.read_bytes() == b"from the bucket\n"
    held.contents.clear()
    assert find_copies(asked.objects, notices.append) == []
    assert held.reads == ["words"]


def test_nothing_is_moved_beyond_the_limit_or_for_a_missing_object(held: type[Held], notices: list[str]) -> None:
    with pytest.raises(InputError, match="16 bytes together, and no more than 15"):
        fetch_objects(application(inputs={"w": URL}, limit=15).objects, notices.append)
    with pytest.raises(InputError, match="s3://bucket/nothing not found"):
        fetch_objects(application(inputs={"w": URL, "n": "s3://bucket/nothing"}).objects, notices.append)
    assert held.reads == []


def test_results_are_stored_once(held: type[Held], notices: list[str], tmp_path: Path) -> None:
    asked = application(outputs={"answer": "s3://bucket/answer"}).objects
    with pytest.raises(InputError, match="the job has not written it"):
        store_objects(asked, tmp_path, notices.append)
    (tmp_path / "answer").write_text("42\n")
    (checked,) = store_objects(asked, tmp_path, notices.append, check=True)
    assert (checked.changed, "bucket/answer" in held.contents) == (True, False)
    assert [m.changed for _ in range(2) for m in store_objects(asked, tmp_path, notices.append)] == [True, False]
    assert held.contents["bucket/answer"] == b"42\n"
    (tmp_path / "answer").unlink()
    for elsewhere in ("/etc/passwd", "answer", "nothing"):
        (tmp_path / "answer").symlink_to(elsewhere)
        with pytest.raises(InputError, match="answer cannot be stored"):
            store_objects(asked, tmp_path, notices.append)
        (tmp_path / "answer").unlink()


def test_a_bucket_that_is_not_there_is_said_before_the_job(held: type[Held]) -> None:
    check_outputs(None)
    check_outputs(application(outputs={"answer": "s3://bucket/answer"}).objects)
    with pytest.raises(InputError, match=r"objects\.outputs\.answer: s3://nowhere not found"):
        check_outputs(application(outputs={"answer": "s3://nowhere/answer"}).objects)


def test_a_link_to_another_result_is_stored_as_its_content(
    held: type[Held], notices: list[str], tmp_path: Path
) -> None:
    (tmp_path / "best").write_text("42\n")
    (tmp_path / "answer").symlink_to("best")
    store_objects(application(outputs={"answer": "s3://bucket/answer"}).objects, tmp_path, notices.append)
    assert held.contents["bucket/answer"] == b"42\n"


def test_a_refused_upload_over_an_object_of_the_same_size_is_not_stored(
    held: type[Held], notices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "refuses", True)
    held.contents["bucket/answer"] = b"41\n"
    (tmp_path / "answer").write_text("42\n")
    with pytest.raises(TargetError, match="s3://bucket/answer has not the 3 bytes that were stored"):
        store_objects(application(outputs={"answer": "s3://bucket/answer"}).objects, tmp_path, notices.append)


def test_each_storage_has_a_copy_of_its_own(
    held: type[Held], notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [application(inputs={"w": URL}, **which) for which in ({}, {"profile": "other"}, {"region": "other"})]
    for number, one in enumerate(asked):
        held.contents["bucket/words"] = b"%d" % number
        fetch_objects(one.objects, notices.append)
    assert [find_sources(one, [])[0].local.read_bytes() for one in asked] == [b"0", b"1", b"2"]
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(InputError, match="was not fetched"):
        find_sources(asked[0], [])


def test_content_that_a_run_is_reading_stays_and_goes_after_a_day(held: type[Held], notices: list[str]) -> None:
    asked = application()
    fetch_objects(asked.objects, notices.append)
    (before,) = find_sources(asked, [])
    (folder(asked) / "part.0").write_bytes(b"")
    held.contents["bucket/words"] = b"other\n"
    fetch_objects(asked.objects, notices.append)
    assert before.local.read_bytes() == b"from the bucket\n"
    for path in folder(asked).iterdir():
        os.utime(path, (0, 0))
    held.contents["bucket/words"] = b"third\n"
    fetch_objects(asked.objects, notices.append)
    record = copied(asked.objects, URL) if asked.objects else None
    assert record is not None
    assert {path.name for path in folder(asked).iterdir()} == {RECORD, record.content}
    os.utime(folder(asked) / record.content, (0, 0))
    fetch_objects(asked.objects, notices.append)
    assert (folder(asked) / record.content).stat().st_mtime > 0


@pytest.mark.parametrize(
    "objects",
    [
        {"inputs": {"../w": URL}},
        {"inputs": {"/w": URL}},
        {"inputs": {"w": "https://bucket/words"}},
        {"inputs": {"w": "s3://bucket/"}},
        {"inputs": {"w": "s3://user:secret@bucket/words"}},
        {"outputs": {"other": "s3://bucket/answer"}},
    ],
)
def test_what_is_refused(objects: dict[str, dict[str, str]]) -> None:
    with pytest.raises(ValidationError):
        application(**objects)
