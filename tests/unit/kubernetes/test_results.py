"""Results in a pod's log: packed by the script of the Job in real shells, and logs of a hostile pod."""

import base64
import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from modak_deploy.errors import JobError, ModakError, TargetError
from modak_deploy.jobs.results.folder import ResultsFolder
from modak_deploy.kubernetes import results
from modak_deploy.kubernetes.results import Returned, parse_log, unpack
from modak_deploy.model.kubernetes import Placement
from modak_deploy.providers.kubernetes import Workload, manifests

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def workload(outputs: list[str], program: str = "true", records: str | None = None) -> Workload:
    argv = ["sh", "-c", program]
    return Workload("probe", "tag", "example.org/a@sha256:0", argv, outputs=outputs, returned=True, records=records)


def ran(shell: str, folder: Path, program: str, outputs: list[str]) -> "subprocess.CompletedProcess[bytes]":
    """Run what the Job's container would run, with the paths below /modak in ``folder``."""
    container = manifests(workload(outputs, program), Placement())[-1]["spec"]["template"]["spec"]["containers"][0]
    for name in ("work", "results"):
        (folder / "modak" / name).mkdir(parents=True)
    command = [word.replace("$$", "$").replace("/modak/", f"{folder}/modak/") for word in container["command"]]
    command[:1] = ["busybox", "sh"] if shell == "busybox" else [shell]
    return subprocess.run(command, cwd=folder / "modak/work", capture_output=True, check=False)


@pytest.mark.parametrize("shell", SHELLS)
def test_outputs_and_exit_code_come_back(shell: str, tmp_path: Path) -> None:
    program = 'mkdir -p out; echo a >"out/it\'s"; ln -s "it\'s" out/link; printf said; exit 7'
    done = ran(shell, tmp_path, program, ["out", "not-written"])
    returned = parse_log(done.stdout)
    assert (done.returncode, returned.output) == (7, b"said")
    with ResultsFolder(tmp_path / "results") as folder:
        unpack(returned, workload(["out", "not-written"]), folder)
    assert (tmp_path / "results/out/link").read_text() == "a\n"
    assert (returned.skipped, sorted(returned.written)) == ({}, ["out", "out/it's", "out/link"])


@pytest.mark.parametrize("shell", SHELLS)
def test_too_large_results_are_refused_and_no_results_are_none(shell: str, tmp_path: Path) -> None:
    done = ran(shell, tmp_path / "large", "head -c 5000000 /dev/urandom >big", ["big"])
    with pytest.raises(JobError, match="a log takes 4194304"):
        parse_log(done.stdout)
    assert parse_log(ran(shell, tmp_path / "none", "true", ["big"]).stdout).archive is None


def frame(archive: bytes, **changed: object) -> bytes:
    packed = gzip.compress(archive, mtime=0)
    values = {
        "size": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "data": base64.encodebytes(packed).decode(),
    }
    values |= changed
    return "\nmodak-results-begin {size} {sha256}\n{data}modak-results-end\n".format(**values).encode()


def archive(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        tar.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"printed\n",
        frame(archive("out"))[:-3],
        frame(archive("out"), sha256="0" * 64),
        frame(archive("out"), size=1),
        frame(archive("out"), data="!!!\n"),
        frame(archive("out")) + b"more",
    ],
)
def test_damaged_logs_are_errors(log: bytes) -> None:
    with pytest.raises(TargetError):
        parse_log(log)


@pytest.mark.parametrize("name", ["../out", "/out", "out/../../x", "other", "out//x", "./out/./x"])
def test_paths_that_were_not_asked_for_are_errors(name: str, tmp_path: Path) -> None:
    with ResultsFolder(tmp_path / "results") as folder, pytest.raises(ModakError):
        unpack(parse_log(frame(archive(name))), workload(["out"]), folder)
    assert list((tmp_path / "results").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "link"), [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.SYMTYPE, "../../x"), (tarfile.FIFOTYPE, "")]
)
def test_links_that_lead_out_and_devices_are_skipped(kind: bytes, link: str, tmp_path: Path) -> None:
    returned: Returned = parse_log(frame(archive("out", kind, link)))
    with ResultsFolder(tmp_path / "results") as folder:
        unpack(returned, workload(["out"]), folder)
    assert (list(returned.skipped), returned.written) == (["out"], [])


def test_a_program_that_prints_a_frame_is_its_own_output() -> None:
    forged = frame(archive("other"))
    assert parse_log(forged + frame(archive("out"))).output == forged


def test_records_of_the_launcher_are_read_and_not_written(tmp_path: Path) -> None:
    returned = parse_log(frame(archive("launch/record/1.jsonl")))
    with ResultsFolder(tmp_path / "results") as folder:
        unpack(returned, workload(["out"], records="launch/record"), folder)
    assert (returned.records, returned.recorded, returned.written) == ([""], 1, [])
    assert list((tmp_path / "results").iterdir()) == []
    with ResultsFolder(tmp_path / "other") as folder, pytest.raises(ModakError):
        unpack(returned, workload(["out"]), folder)


def test_a_program_that_prints_a_frame_and_writes_no_results_is_its_own_output(tmp_path: Path) -> None:
    forged = frame(archive("other"))
    returned = parse_log(forged + b"\nmodak-results-none\n")
    assert (returned.output, returned.archive) == (forged, None)


def test_second_names_of_files_and_links_are_written_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed(names: int) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            first, link = tarfile.TarInfo("./out/a"), tarfile.TarInfo("./out/l")
            first.size, link.type, link.linkname = 1000, tarfile.SYMTYPE, "a"
            tar.addfile(first, io.BytesIO(b"x" * 1000))
            tar.addfile(link)
            for number in range(names):
                other = tarfile.TarInfo(f"./out/{number}")
                other.type, other.linkname = tarfile.LNKTYPE, "./out/l" if number == 0 else "./out/a"
                tar.addfile(other)
        return buffer.getvalue()

    with ResultsFolder(tmp_path / "results") as folder:
        unpack(parse_log(frame(packed(1500))), workload(["out"]), folder)
        assert (tmp_path / "results/out/0").readlink() == Path("a")
        assert (tmp_path / "results/out/1499").read_bytes() == b"x" * 1000
    returned = parse_log(frame(packed(1500)))
    monkeypatch.setattr(results, "MAX_UNPACKED", 1_000_000)
    with ResultsFolder(tmp_path / "bounded") as folder, pytest.raises(TargetError, match="more than"):
        unpack(returned, workload(["out"]), folder)
    assert len(list((tmp_path / "bounded/out").iterdir())) == 1002


@pytest.mark.parametrize("link", ["/etc/passwd", "out", "out/absent"])
def test_a_second_name_of_what_is_not_in_the_archive_is_an_error(link: str, tmp_path: Path) -> None:
    returned = parse_log(frame(archive("out", tarfile.LNKTYPE, link)))
    with ResultsFolder(tmp_path / "results") as folder, pytest.raises(TargetError, match="damaged"):
        unpack(returned, workload(["out"]), folder)
