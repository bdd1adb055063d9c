"""Results of a job that is not trusted, on a target that is not: what is fetched and reported, and where it goes."""

import json
import os
import shutil
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.jobs.results import folder as folder_module
from modak_deploy.jobs.results import transfer
from modak_deploy.jobs.results.links import kept_target
from modak_deploy.transport.base import Completed, Transport
from targets import Edited, EndedJob, Tools, busybox, make_file, tree, usual
from transports import Counting

DATA = Path(__file__).parents[2] / "data" / "results"
NAMES: list[str] = json.loads((DATA / "names.json").read_text())


def _targets() -> dict[str, dict[str, str]]:
    """Return the tools of several kinds of targets."""
    bsdtar = shutil.which("bsdtar")
    return {
        "GNU": usual(),
        "busybox": busybox(),
        "BSD tar": usual(tar=bsdtar) if bsdtar else {},
        "shasum and openssl base64": usual("sha256sum", "base64"),
        "openssl": usual("sha256sum", "shasum", "base64"),
        "POSIX": usual("sha256sum", "shasum", "openssl", "base64", "stat", "head"),
    }


@pytest.fixture(params=_targets(), ids=str)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    tools = _targets()[request.param]
    if not tools:
        pytest.skip(f"{request.param} is not installed")
    return Tools(tmp_path / "tools", tools)


def test_every_legal_name(target: Transport, tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").mkdir()
    for number, name in enumerate(NAMES):
        make_file(job.work / "out", name, f"{number}\n".encode() * number)
    (job.work / "out" / "in a folder\n").mkdir()
    make_file(job.work / "out" / "in a folder\n", "\u2028/".strip("/") + "\n", b"x")
    fetched = job.fetch(target)
    assert fetched.changed
    assert fetched.result.not_fetched == []
    assert tree(job.results / "out") == tree(job.work / "out")
    assert sorted(path.name for path in job.results.iterdir()) == ["job.json", "out", "output.log", "plan.json"]
    assert not job.fetch(target).changed
    assert not list(tmp_path.rglob("oops"))


@pytest.mark.parametrize("name", NAMES)
def test_output_with_any_name(name: str, tmp_path: Path) -> None:
    if "\n" in name or "\r" in name or "\udc80" <= max(name) <= "\udcff" or name in ("plan.json", "job.json"):
        pytest.skip("a document cannot declare it")
    if name in ("output.log", ".fetch-abc"):
        with pytest.raises(InputError, match="is the name of a file that modak writes itself"):
            EndedJob(tmp_path, outputs=[name]).fetch()
        return
    job = EndedJob(tmp_path, outputs=[name])
    make_file(job.work, name, b"content")
    job.fetch()
    assert tree(job.results)[name.encode()] == b"content"


def test_forged_lines_write_nothing_elsewhere(tmp_path: Path) -> None:
    """The attack of an older listing: a line of it in the name of a file, of which each of these ended one."""
    victim = tmp_path / "authorized_keys"
    job = EndedJob(tmp_path, outputs=["out"])
    forged = f"{'0' * 64} 9 {victim}".replace("/", "\u2215")
    (job.work / "out").mkdir()
    for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        make_file(job.work / "out", f"a{mark}{forged}", b"key")
    job.fetch()
    assert not victim.exists()
    assert tree(job.results / "out") == tree(job.work / "out")


def test_folders_links_and_modes(target: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_umask", lambda: 0o022)
    job = EndedJob(tmp_path, outputs=["out", "empty", "linked", "single", "shared"])
    for name in ("out/deep/er", "out/hollow", "empty", "elsewhere"):
        (job.work / name).mkdir(parents=True)
    (job.work / "out" / "deep" / "file").write_text("x")
    (job.work / "out" / "deep" / "file").chmod(0o640)
    (job.work / "out" / "tool").write_text("#!/bin/sh\n")
    (job.work / "out" / "tool").chmod(0o4755)
    os.link(job.work / "out" / "deep" / "file", job.work / "out" / "second name")
    (job.work / "elsewhere" / "file").write_text("linked")
    (job.work / "linked").symlink_to("elsewhere")
    (job.work / "single").symlink_to("elsewhere/file")
    (job.work / "shared").symlink_to(tmp_path / "outside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "model").write_text("declared by the user")
    inner = {"up": "../tool", "down": "er", "absolute": f"{job.work}/out/tool", "nowhere": "not/there"}
    outer = {"root": "/", "passwd": "/etc/passwd", "above": "../../../x", "sly": "er/../../../..", "home": "~/../.."}
    for name, leads_to in (inner | outer).items():
        (job.work / "out" / "deep" / name).symlink_to(leads_to)
    os.mkfifo(job.work / "out" / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(job.work / "out")  # the name of a socket is short
        server.bind("socket")
        os.chdir(tmp_path)
    fetched = job.fetch(target)
    found = tree(job.results)
    assert found[b"out/hollow"] is None and found[b"empty"] is None
    assert (found[b"linked/file"], found[b"single"]) == (b"linked", b"linked")
    assert found[b"shared/model"] == b"declared by the user"
    assert (found[b"out/deep/file"], found[b"out/second name"]) == (b"x", b"x")
    assert found[b"out/deep/up"] == ("link", b"../tool") and found[b"out/deep/absolute"] == ("link", b"../tool")
    assert found[b"out/deep/down"] == ("link", b"er") and found[b"out/deep/nowhere"] == ("link", b"not/there")
    assert not any(f"out/deep/{name}".encode() in found for name in outer if name != "home")
    reported = {line.partition(":")[0] for line in fetched.result.not_fetched}
    assert reported == {"out/fifo", "out/socket", *(f"out/deep/{name}" for name in outer)}
    assert "out/deep/passwd: it is a symbolic link to '/etc/passwd', outside the results" in fetched.result.not_fetched
    assert stat.S_IMODE((job.results / "out" / "tool").stat().st_mode) == 0o755
    if not isinstance(target, Tools) or (tmp_path / "tools" / "stat").exists():
        assert stat.S_IMODE((job.results / "out" / "deep" / "file").stat().st_mode) == 0o640
    assert not job.fetch(target).changed
    (job.results / "out" / "tool").chmod(0o600)
    assert job.fetch(target).changed
    assert os.access(job.results / "out" / "tool", os.X_OK)


def test_link_to_nothing_is_not_written(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").symlink_to("gone")
    with pytest.raises(
        JobError, match=r"without writing 'out', which application\.outputs declares: it is a symbolic "
    ):
        job.fetch()
    assert job.fetch(state="failed").result.state == "failed"


@pytest.mark.parametrize(
    ("path", "leads_to", "kept"),
    [
        ("out/l", "a", "a"),
        ("out/l", "../b", "../b"),
        ("out/l", "../../b", None),
        ("l", "..", None),
        ("out/l", "/w/out/a", "a"),
        ("out/d/l", "/w/b", "../../b"),
        ("out/l", "/w/../etc", None),
        ("out/l", "/wide", None),
        ("out/l", "a/../b", None),
        ("out/l", "/", None),
        ("out/l", "", None),
        ("out/l", "./a//b", "./a//b"),
        ("out/l", "x/" * 3000, None),
    ],
)
def test_links_that_are_kept(path: str, leads_to: str, kept: str | None) -> None:
    assert kept_target(path, leads_to, "/w") == kept


def test_links_planted_on_the_controller_are_not_followed(tmp_path: Path) -> None:
    """As an earlier fetch of another version, or another program, may have left them."""
    job = EndedJob(tmp_path, outputs=["out", "file", "sub/a"])
    (job.work / "out" / "inner").mkdir(parents=True)
    (job.work / "out" / "inner" / "a").write_text("new")
    (job.work / "file").write_text("new")
    (job.work / "sub").mkdir()
    (job.work / "sub" / "a").write_text("new")
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    for name in ("file", "a", "inner/a", "job"):
        (outside / name).write_text("old")
    (job.results / "sub").mkdir(parents=True)
    (job.results / "out").symlink_to(outside)
    (job.results / "file").symlink_to(outside / "file")
    (job.results / "sub" / "a").symlink_to(outside / "a")
    (job.results / "job.json").symlink_to(outside / "job")
    before = tree(outside)
    job.fetch()
    assert tree(outside) == before
    assert tree(job.results)[b"out/inner/a"] == b"new"
    assert tree(job.results)[b"file"] == b"new"
    assert tree(job.results)[b"sub/a"] == b"new"
    assert not (job.results / "job.json").is_symlink()


def test_file_in_place_of_a_folder_and_the_other_way(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["a", "b"])
    (job.work / "a").mkdir()
    (job.work / "a" / "x").write_text("x")
    (job.work / "b").write_text("b")
    (job.results / "b").mkdir(parents=True)
    (job.results / "a").write_text("file")
    job.fetch()
    assert (job.results / "a" / "x").read_text() == "x"
    assert (job.results / "b").read_text() == "b"
    (job.results / "b").unlink()
    (job.results / "b").mkdir()
    (job.results / "b" / "mine").write_text("the user's")
    (job.work / "a" / "y").write_text("y")
    with pytest.raises(
        TargetError, match=r"not complete: 'b': something else is at .*/probe/b; move it away; try again"
    ):
        job.fetch()
    assert (job.results / "a" / "y").read_text() == "y"
    assert (job.results / "b" / "mine").read_text() == "the user's"


def test_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "EAGER", 0)
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").mkdir()
    for name in "abc":
        (job.work / "out" / name).write_text("old")
    changes = iter(["changed once"])

    def edit() -> None:
        for text in changes:
            (job.work / "out" / "b").write_text(text)

    job.fetch(Edited("pack()", edit))
    assert (job.results / "out" / "b").read_text() == "changed once"


def test_file_that_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "EAGER", 0)
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").mkdir()
    for name in "abc":
        (job.work / "out" / name).write_text("old")

    def edit() -> None:
        with (job.work / "out" / "b").open("a") as file:
            file.write("more")

    transport = Edited("pack()", edit)
    with pytest.raises(TargetError, match=r"not complete: 'out/b': it changed, or was damaged, while it was fetched"):
        job.fetch(transport)
    assert transport.trips == 6
    assert sorted(tree(job.results / "out")) == [b"a", b"c"]


def test_file_that_becomes_a_link_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "EAGER", 0)
    secret = tmp_path / "secret"
    secret.write_text("old")
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").mkdir()
    (job.work / "out" / "a").write_text("old")

    def edit() -> None:
        (job.work / "out" / "a").unlink()
        (job.work / "out" / "a").symlink_to(secret)

    assert "out/a: it is a symbolic link" in job.fetch(Edited("pack()", edit)).result.not_fetched[0]


def test_small_files_come_with_their_list(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out", "big", "linked"])
    (job.work / "out").mkdir()
    for name in ("a", "line\nfeed", "-x"):
        make_file(job.work / "out", name, os.urandom(1000))
    make_file(job.work, "big", os.urandom(2 * 1024 * 1024))
    (job.work / "linked").symlink_to("out/a")
    transport = Counting()
    job.fetch(transport)
    assert tree(job.results / "out") == tree(job.work / "out")
    assert transport.trips == 3, "the list with what fits, the large file, the one that is a link"
    again = Counting()
    job.fetch(again)
    assert again.trips == 1


def test_content_that_is_not_what_the_list_says_is_fetched_again(tmp_path: Path) -> None:
    """The file changes between the two."""
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out").write_text("listed")

    class Changing(Counting):
        def run(self, command: str, **rest: Any) -> Completed:
            return super().run(command.replace("part content", "part content; echo changed >work/out"), **rest)

    transport = Changing()
    job.fetch(transport)
    assert (job.results / "out").read_text() == "changed\n"
    assert transport.trips > 1


def test_large_file_with_an_odd_name_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LARGE", 1000)
    monkeypatch.setattr(transfer, "PIECE", 1)
    job = EndedJob(tmp_path, outputs=["out", "linked"])
    (job.work / "out").mkdir()
    content = os.urandom(2 * 1024 * 1024 + 5)
    for name in ("line\nfeed", "sep\u2028arator", "back\\slash", "plain"):
        make_file(job.work / "out", name, content)
    (job.work / "linked").symlink_to("out/plain")
    job.fetch()
    assert tree(job.results / "out") == tree(job.work / "out")
    assert (job.results / "linked").read_bytes() == content


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named_and_the_rest_is_fetched(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, outputs=["out"])
    (job.work / "out" / "closed").mkdir(parents=True)
    for name in ("a", "private", "z"):
        (job.work / "out" / name).write_text(name)
    (job.work / "out" / "private").chmod(0)
    (job.work / "out" / "closed").chmod(0)
    with pytest.raises(TargetError, match=r"'out/private': it cannot be read on the target.*; try again"):
        job.fetch()
    (job.work / "out" / "closed").chmod(0o700)
    assert {b"a", b"z"} <= set(tree(job.results / "out"))
