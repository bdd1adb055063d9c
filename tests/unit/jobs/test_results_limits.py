"""Fetching results: bounds, disks that are full, targets that lie, and what it costs."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from modak_deploy.errors import InputError, JobError, ModakError, TargetError
from modak_deploy.jobs.results import folder as folder_module
from modak_deploy.jobs.results import listing, transfer
from targets import Edited, EndedJob, Tools, make_file, tree, usual

DATA = Path(__file__).parents[2] / "data" / "results"


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out" / "a" / "b" / "c").mkdir(parents=True)
    (job.work / "out" / "a" / "b" / "c" / "deep").write_text("x")
    (job.work / "out" / "near").write_text("x")
    monkeypatch.setattr(listing, "MAX_DEPTH", 4)
    assert job.fetch().result.not_fetched == [
        "out/a/b/c: it lies more than 4 folders or 4096 bytes deep",
        "out/a/b/c/deep: it lies more than 4 folders or 4096 bytes deep",
    ]
    monkeypatch.setattr(listing, "MAX_ENTRIES", 4)
    with pytest.raises(TargetError, match="the outputs have more than 4 files and folders, or too long names: pack"):
        job.fetch()
    monkeypatch.setattr(listing, "MAX_LISTING", 200)
    monkeypatch.setattr(transfer, "MAX_LISTING", 200)
    with pytest.raises(TargetError, match="the outputs have more than 4 files and folders, or too long names: pack"):
        job.fetch()


def test_controller_without_enough_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").write_text("x" * 5_000_000)
    monkeypatch.setattr(folder_module.ResultsFolder, "free", lambda self: 2**20)
    with pytest.raises(InputError, match=r"the results need 5 MiB, and there are 1 MiB free in .*results/probe"):
        job.fetch()


def test_name_that_the_controller_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS refuses what is not UTF-8, and some file systems a colon."""
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").mkdir()
    for name in ("a", "\udcff", "z"):
        make_file(job.work / "out", name, b"x")
    real = os.rename

    def rename(old: object, new: bytes, **rest: int) -> None:
        if b"\xff" in os.fsencode(new):
            raise OSError(92, "Illegal byte sequence")
        real(old, new, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(folder_module, "_NO_SUCH_NAME", frozenset({92}))
    fetched = job.fetch()
    assert fetched.result.not_fetched == [
        f"out/\\udcff: the file system of {job.results} cannot hold this name: Illegal byte sequence"
    ]
    assert sorted(tree(job.results / "out")) == [b"a", b"z"]


LIES: list[list[str]] = json.loads((DATA / "lies.json").read_text())


@pytest.mark.parametrize("values", LIES, ids=lambda values: " ".join(values)[:40])
def test_target_that_lies(values: list[str], tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").write_text("x")
    lie = "\0".join(values) + "\0"

    def answer(text: str) -> str:
        head, mark, rest = text.partition("listing\n")
        boundary = text.split("\n")[1].partition(" ")[0]
        return f"{head}{mark}{lie}\n{boundary} end\n" if mark else rest

    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(job.root)}
    with pytest.raises(ModakError):
        job.fetch(Edited("want()", answer=answer))
    after = {path for path in tmp_path.rglob("*") if not path.is_relative_to(job.root)}
    assert after == before
    assert {path.name for path in job.root.rglob("*") if path.is_file()} <= {"plan.json"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "modak-test", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk_on_the_target(small_disk: Path, tmp_path: Path) -> None:
    job = EndedJob(small_disk, outputs=["out", "lost"])
    (job.work / "out").write_text("written before the disk was full")
    job.root = tmp_path / "results"
    with (job.work / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while file.write(b"x" * 512):
            pass
    with pytest.raises(JobError, match=r"'lost', which application\.outputs declares; the file system of the job's fo"):
        job.fetch()
    assert (tmp_path / "results" / "probe" / "out").read_text() == "written before the disk was full"


def test_number_of_round_trips_and_programs(tmp_path: Path) -> None:
    """Two round trips for 2,000 files, not one for each 500, and no program for each file."""
    job = EndedJob(tmp_path, outputs=["out"])
    for folder in range(20):
        (job.work / "out" / str(folder)).mkdir(parents=True)
        for number in range(100):
            (job.work / "out" / str(folder) / f"{number}.txt").write_text(f"{folder} {number}")
    log = tmp_path / "log"
    tools = usual()
    transport = Tools(tmp_path / "tools", tools)
    for name in ("sha256sum", "tar", "stat"):
        (tmp_path / "tools" / name).unlink()
        (tmp_path / "tools" / name).write_text(f'#!/bin/sh\necho {name} >>{log}\nexec {tools[name]} "$@"\n')
        (tmp_path / "tools" / name).chmod(0o755)
    job.fetch(transport)
    assert tree(job.results / "out") == tree(job.work / "out")
    assert len(log.read_text().splitlines()) < 20


def test_abandoned_files_of_a_killed_run(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=[])
    (job.results / ".fetch-old00000").mkdir(parents=True)
    (job.results / ".fetch-old00000" / "part").write_text("x")
    os.utime(job.results / ".fetch-old00000", (0, 0))
    (job.results / ".fetch-new00000").mkdir()
    job.fetch()
    assert sorted(path.name for path in job.results.glob(".*")) == [".fetch-new00000"]


def test_results_folder_that_is_a_link_of_the_users(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").write_text("x")
    (tmp_path / "large disk").mkdir()
    job.root.mkdir()
    job.results.symlink_to(tmp_path / "large disk")
    job.fetch()
    assert (tmp_path / "large disk" / "out").read_text() == "x"
