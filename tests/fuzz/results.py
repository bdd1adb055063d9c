"""What jobs write and targets list: listings, archives, names of files, metrics."""

import base64
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from random import Random

from generate import mutated, name, text, tree
from scripted import Parts, Scripted

from modak_deploy.errors import ModakError
from modak_deploy.jobs.results import MAX_BYTES
from modak_deploy.jobs.results.metrics import parse_metrics
from modak_deploy.model.job import JobResult
from modak_deploy.performance.recording import FIRST, LATER, _run
from modak_deploy.terminal import visible
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import LocalTransport
from targets import EndedJob
from targets import tree as entries

TYPES = (b"0", b"0", b"1", b"2", b"3", b"5", b"6")
"""Of members of an archive: twice a file, both kinds of links, a device, a folder, a FIFO."""
KINDS = ("files", "odd", "folders", "links", "other", "followed", "end")


def _fetch(folder: Path, job: EndedJob, transport: Transport) -> None:
    """Fetch, and check that nothing but the results has changed, and that an error can be shown."""
    (folder / "outside").mkdir()
    (folder / "outside" / "victim").write_text("untouched")
    before = {path: content for path, content in entries(folder).items() if not path.startswith(b"results/")}
    before.pop(b"results", None)
    try:
        fetched = job.fetch(transport)
    except ModakError as error:
        assert visible(str(error)) == str(error), f"an error that no terminal may see: {error!r}"
    else:
        assert all(visible(line) == line and "\n" not in line for line in fetched.result.not_fetched)
    after = {path: content for path, content in entries(folder).items() if not path.startswith(b"results/")}
    after.pop(b"results", None)
    assert before == after, f"changed: {before.items() ^ after.items()}"
    assert not list(job.results.glob(".fetch-*"))


def _plant(random: Random, folder: Path, job: EndedJob) -> None:
    """Leave links among the results, as an earlier fetch of a faulty version may have done."""
    job.results.mkdir(parents=True)
    for path in ("out", "out/a", "file", "job.json", "output.log"):
        if random.random() < 0.3 and (job.results / path).parent.resolve().is_relative_to(job.results.resolve()):
            (job.results / path).parent.mkdir(exist_ok=True)
            (job.results / path).symlink_to(
                random.choice([folder / "outside", folder / "outside" / "victim", "/", ".."])
            )


def _path(random: Random) -> str:
    """Return a path that the caller asked for or that lies below one; rarely another."""
    if random.random() < 0.04:
        return random.choice(["/etc/passwd", "../victim", "./../../outside/victim", "./work", "", name(random)])
    inner = "/".join(name(random) for _ in range(random.randint(0, 3)))
    start = random.choice(["./work/out", "./work/out", "./work/out/a", "./work/file", "./output.log", "./plan.json"])
    path = f"{start}/{inner}" if inner else start
    return mutated(random, path).replace("\0", "") if random.random() < 0.03 else path


def _archive(random: Random, members: dict[str, bytes]) -> bytes:
    """Return a tar archive of files, among which are others now and then, and damage."""
    buffer = io.BytesIO()
    extra = [_path(random), "/etc/passwd", "../../../outside/victim"] if random.random() < 0.3 else []
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as tar:
        for path in [*members, *extra]:
            member = tarfile.TarInfo(path or "x")
            member.type = random.choice(TYPES) if random.random() < 0.1 else tarfile.REGTYPE
            member.linkname = random.choice(["/etc/passwd", "../../x", "a", "./work/out", _path(random)])
            content = members.get(path, b"extra")
            member.size = len(content) if member.isreg() else 0
            member.mode = random.choice([0o644, 0o4777, 0, 0o7777])
            tar.addfile(member, io.BytesIO(content))
    data = bytearray(buffer.getvalue())
    for _ in range(random.choice([0, 0, 0, 0, 1, 20])):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.choice([len(data)] * 8 + [random.randint(0, len(data))])])


def _link_archive(random: Random, paths: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as tar:
        for path in paths:
            member = tarfile.TarInfo(path or "x")
            member.type = tarfile.SYMTYPE
            member.linkname = random.choice(["/", "/etc/passwd", "..", "../../../outside", "a", "a/../.."])
            tar.addfile(member)
    return buffer.getvalue()


def _listing(random: Random) -> tuple[str, dict[str, bytes]]:
    """Return a listing, most often one that a target could send, and what its files hold."""
    values: list[str] = []
    contents: dict[str, bytes] = {}
    for kind in ["files", *random.choices(KINDS[:-1], k=random.randint(0, 4))]:
        single = kind in ("odd", "followed")
        paths = [_path(random) for _ in range(1 if single else random.randint(1, 4))]
        if random.random() < 0.8:
            paths = [path.replace("\n", "") for path in paths]
        new = {path: b"new\n" * random.randint(0, 3) for path in paths}
        values += [kind, *([] if single else [str(len(paths))]), *paths]
        sums = "".join(f"{_digest(random, new[path])}  {path}\n" for path in paths)
        about = "".join(f"{random.choice(['644', '7777', '0'])},{_size(random, new[path])},{path}\n" for path in paths)
        values += {"files": [sums, about], "odd": [sums, about], "folders": [about]}.get(kind, [])
        if kind == "links":
            values.append(base64.b64encode(_link_archive(random, contents)).decode())
        if kind in ("files", "odd"):
            contents |= new
    values += ["end", random.choice(["0", "0", "0", "1"])]
    if random.random() < 0.1:
        values[random.randrange(len(values))] = text(random)
    listing = "\0".join(values) + "\0"
    return (mutated(random, listing) if random.random() < 0.1 else listing), contents


def _digest(random: Random, content: bytes) -> str:
    wrong = f"{random.getrandbits(256):064x}"
    return wrong if random.random() < 0.05 else hashlib.sha256(content).hexdigest()


def _size(random: Random, content: bytes) -> int:
    return random.choice([0, 10**6, 10**18, 40_000_000]) if random.random() < 0.05 else len(content)


def faulty_listing(random: Random, folder: Path) -> None:
    """Any listing, any archive, from a target that lies: nothing outside the results, no loop, no traceback."""
    job = EndedJob(folder, outputs=["out", "file"])
    _plant(random, folder, job)
    listing, contents = _listing(random)

    def listed() -> Parts:
        return [("encoding", "base64"), ("space", text(random)), ("listing", listing)]

    def read() -> Parts:
        return [
            (random.choice(["base64", "base64", "hex", "other"]), base64.b64encode(_archive(random, contents)).decode())
        ]

    _fetch(folder, job, Scripted({"want()": listed, "pack()": read}, stderr=text(random)))


def honest_tree(random: Random, folder: Path) -> None:
    """Any tree that a job may write, through a real shell and its tools: fetched as it is, or reported by name."""
    job = EndedJob(folder, outputs=["out"])
    (job.work / "out").mkdir()
    folders = [str(job.work / "out").encode()]
    for _ in range(random.randint(0, 12)):
        path = random.choice(folders) + b"/" + name(random).encode("utf-8", "surrogateescape")
        _make(random, path, folders)
    _plant(random, folder, job)
    _fetch(folder, job, LocalTransport())
    wanted, got = entries(job.work / "out"), entries(job.results / "out")
    for path, content in wanted.items():
        if content != "other" and not isinstance(content, tuple):
            assert path in got and got[path] == content, f"not fetched: {path!r}"
    assert set(got) - {b"a"} <= set(wanted)  # one that was planted
    assert not job.fetch().changed


def _make(random: Random, path: bytes, folders: list[bytes]) -> None:
    try:
        match random.randrange(6):
            case 0:
                os.mkdir(path, 0o755)  # noqa: PTH102 - names that are no text
                folders.append(path)
            case 1:
                os.symlink(random.choice([b"/etc/passwd", b"..", b"a", b"../../../outside", b"../out", b"/"]), path)  # noqa: PTH211
            case 2 if random.random() < 0.3:
                os.mkfifo(path)
            case _:
                with open(path, "xb") as file:  # noqa: PTH123
                    file.write(random.randbytes(random.choice([0, 1, 100, 5000])))
    except OSError:
        pass  # there is one of that name, or it is too long


def metrics(random: Random, folder: Path) -> None:
    """Any metrics file: values that can be kept, recorded and shown, or one sentence."""
    value = (
        {name: tree(random) for name in [FIRST, LATER, "accuracy", text(random)]}
        if random.random() < 0.7
        else tree(random)
    )
    sample = json.dumps(value, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.5:
        sample = mutated(random, sample)
    if random.random() < 0.1:
        sample = "[" * random.choice([20, 400, 200_000]) + "1"
    data = sample.encode("utf-8", random.choice(["surrogatepass", "replace"]))[:MAX_BYTES]
    try:
        values = parse_metrics(data, "metrics.json")
    except ModakError as error:
        assert visible(str(error)) == str(error) and "\n" not in str(error)
        return
    result = JobResult(id="1", scheduler="process", tag="modak-1", state="completed", directory="/x", metrics=values)
    again = JobResult.model_validate_json(result.model_dump_json())
    assert again.metrics == values
    assert visible(json.dumps(values, ensure_ascii=False)) == json.dumps(values, ensure_ascii=False)
    try:
        _run(result, random.choice([0.5, 10.0, 1e6]), values, (FIRST, LATER), "job.json", random.choice([1, 2, 10]))
    except ModakError as error:
        assert visible(str(error)) == str(error)


CASES = {"faulty listing": faulty_listing, "honest tree": honest_tree, "metrics": metrics}
