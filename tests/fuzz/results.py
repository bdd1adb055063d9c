"""What jobs write and targets list: listings, archives, names of files, metrics."""

import base64
import io
import json
import tarfile
from pathlib import Path
from random import Random

from generate import mutated, name, text, tree
from scripted import Parts, Scripted
from targets import EndedJob
from targets import tree as entries

from modak.errors import ModakError
from modak.jobs.results import MAX_BYTES
from modak.jobs.results.metrics import parse_metrics
from modak.model.job import JobResult
from modak.performance.recording import FIRST, LATER, _run
from modak.terminal import visible
from modak.transport.base import Transport

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
    inner = "/".join(name(random) for _ in range(random.randint(0, 3)))
    start = random.choice(
        ["./work/out", "./work/out", "./work/file", "./output.log", "./plan.json", "/etc", "..", "./work", ""]
    )
    path = f"{start}/{inner}" if inner else start
    return mutated(random, path) if random.random() < 0.2 else path


def _archive(random: Random, paths: list[str]) -> bytes:
    """Return a tar archive with members of any kind, now and then damaged."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as tar:
        for path in [*paths, _path(random), "/etc/passwd", "../../../outside/victim"]:
            member = tarfile.TarInfo(path.replace("\0", "") or "x")
            member.type = random.choice([tarfile.REGTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])  # fmt: skip
            member.linkname = random.choice(["/etc/passwd", "../../x", "a", "./work/out", _path(random)]).replace(
                "\0", ""
            )
            content = b"new\n" * random.randint(0, 3)
            member.size = len(content) if member.isreg() else 0
            member.mode = random.choice([0o644, 0o4777, 0, 0o7777])
            try:
                tar.addfile(member, io.BytesIO(content))
            except (ValueError, UnicodeError):
                continue
    data = bytearray(buffer.getvalue())
    for _ in range(random.choice([0, 0, 1, 20])):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.choice([len(data), len(data), random.randint(0, len(data))])])


def _listing(random: Random) -> tuple[str, list[str]]:
    values: list[str] = []
    paths: list[str] = []
    for _ in range(random.randint(0, 5)):
        kind = random.choice(KINDS[:-1])
        found = [
            _path(random).replace("\0", "") for _ in range(1 if kind in ("odd", "followed") else random.randint(0, 3))
        ]
        paths += found
        values += [kind, *([] if kind in ("odd", "followed") else [str(len(found))]), *found]
        sums = "".join(f"{'%064x' % random.getrandbits(256)}  {path}\n" for path in found)
        about = "".join(
            f"{random.choice(['644', '7777', '755'])},{random.choice([0, 4, 8, 10**6])},{path}\n" for path in found
        )
        values += {"files": [sums, about], "odd": [sums, about], "folders": [about]}.get(kind, [])
        if kind == "links":
            values.append(base64.b64encode(_archive(random, found)).decode())
    values += ["end", random.choice(["0", "0", "1"])]
    if random.random() < 0.5:
        values[random.randrange(len(values))] = text(random)
    listing = "\0".join(values) + "\0"
    return (mutated(random, listing) if random.random() < 0.3 else listing), paths


def faulty_listing(random: Random, folder: Path) -> None:
    """Any listing, any archive, from a target that lies: nothing outside the results, no loop, no traceback."""
    job = EndedJob(folder, outputs=["out", "file"])
    _plant(random, folder, job)
    listing, paths = _listing(random)

    def listed() -> Parts:
        return [("encoding", "base64"), ("space", text(random)), ("listing", listing)]

    def read() -> Parts:
        return [
            (random.choice(["base64", "base64", "hex", "other"]), base64.b64encode(_archive(random, paths)).decode())
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
    from modak.transport.local import LocalTransport

    _fetch(folder, job, LocalTransport())
    wanted, got = entries(job.work / "out"), entries(job.results / "out")
    for path, content in wanted.items():
        if content != "other" and not isinstance(content, tuple):
            assert path in got and got[path] == content, f"not fetched: {path!r}"
    assert set(got) - {b"a"} <= set(wanted)  # one that was planted
    assert not job.fetch().changed


def _make(random: Random, path: bytes, folders: list[bytes]) -> None:
    import os

    try:
        match random.randrange(6):
            case 0:
                os.mkdir(path, 0o755)
                folders.append(path)
            case 1:
                os.symlink(random.choice([b"/etc/passwd", b"..", b"a", b"../../../outside", b"../out", b"/"]), path)
            case 2 if random.random() < 0.3:
                os.mkfifo(path)
            case _:
                with open(path, "xb") as file:
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
        _run(result, random.choice([0.5, 10.0, 1e6]), values, (FIRST, LATER), "job.json")
    except ModakError as error:
        assert visible(str(error)) == str(error)


CASES = {"faulty listing": faulty_listing, "honest tree": honest_tree, "metrics": metrics}
