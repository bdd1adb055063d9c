"""Help, the manual page, and the completion of the shell."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modak_deploy import cli
from modak_deploy.deploy.manpage import manual_page


@pytest.fixture(scope="module")
def page() -> str:
    return manual_page(cli.command_line())


def test_the_page_has_all_commands_and_options(page: str) -> None:
    sections = [f".SS modak {name}" for name in ("deploy\n", "measurements show\n", "image ", "serve\n")]
    for text in (*sections, "\\-\\-no\\-wait", "\\-\\-json"):
        assert text in page
    assert "\x1b" not in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_has_nothing_to_warn_of(page: str) -> None:
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "a submitted job goes on" in done.stdout


@pytest.mark.parametrize("columns", [60, 140])
def test_help_is_as_wide_as_the_terminal(columns: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modak_deploy", "deploy", "-h"],
        env={**os.environ, "COLUMNS": str(columns)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    widest = max(map(len, done.stdout.splitlines()))
    assert columns - 45 < widest <= columns


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("modak logs d", {"digits", "deploy.yml"}),
        ("modak deploy deploy.yml -e job.wall", {"job.wall_time="}),
        ("modak unde", {"undeploy"}),
        ("modak measurements sh", {"show"}),
        ("modak site show lu", {"lumi"}),
        ("modak site check lumi le", {"leonardo"}),
        ("modak image pull debian12-m", {"debian12-mpich"}),
        ("modak image pull x --runtime a", {"apptainer"}),
        ("modak image build x --compression zs", {"zstd"}),
        ("modak catalogue show malloc-h", {"malloc-hugepages"}),
        ("modak catalogue list le", {"levers"}),
        ("modak benchmark run x --lever malloc-h", {"malloc-hugepages"}),
        ("modak blueprint init x --from digits-s", {"digits-slurm"}),
        ("modak blueprint validate x --for op", {"opera"}),
        ("modak schema sit", {"site"}),
        ("modak infer x --provider mea", {"measure"}),
        ("modak measurements list --shipped --workload mnist-c", {"mnist-cnn"}),
    ],
)
def test_completion(words: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "results" / "digits").mkdir(parents=True)
    (tmp_path / "results" / "digits" / "plan.json").write_text("{}")
    (tmp_path / "deploy.yml").write_text("")
    sites = tmp_path / "sites.yaml"
    sites.write_text("version: 1\nsites:\n  lumi: {target: {type: slurm}}\n  leonardo: {target: {type: slurm}}\n")
    sites.chmod(0o600)
    environment = {"MODAK_SITES": str(sites), "MODAK_MEASUREMENTS": f"sqlite:///{tmp_path}/store.sqlite"}
    environment |= {"_MODAK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [Path(sys.executable).parent / "modak"],
        env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == expected, done.stderr


def test_a_reader_may_end_before_all_is_written() -> None:
    """As in ``modak measurements list | head -n 2``."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [str(Path(sys.executable).parent / "modak"), "catalogue", "list", "levers"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unread", ["stdout", "stderr"])
@pytest.mark.parametrize("arguments", [["plan"], ["plan", "--json"], ["deploy"], ["deploy", "--json"]])
def test_an_error_that_nobody_reads_has_its_exit_code(unread: str, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [str(Path(sys.executable).parent / "modak"), *arguments, "absent.yml"]
    streams: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, unread: writer}
    done = subprocess.run(command, check=False, stdout=streams["stdout"], stderr=streams["stderr"])
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.parametrize(("command", "code"), [("plan absent.yml", 2), ("plan absent.yml --json", 2), ("--version", 0)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_may_be_closed(closed: str, command: str, code: int) -> None:
    modak = Path(sys.executable).parent / "modak"
    assert subprocess.run(["sh", "-c", f"'{modak}' {command} {closed}"], check=False).returncode == code


def test_what_is_done_goes_on_where_its_lines_are_not_read() -> None:
    program = (
        "import sys\nfrom modak_deploy.deploy.screen import Screen\n"
        "from modak_deploy.terminal import protected_output\n"
        "with protected_output():\n    for _ in range(3):\n        Screen().line('x')\n        Screen().progress('y')\n"
        "    sys.exit(5)\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", program], check=False, stdout=writer, stderr=writer)
    os.close(writer)
    assert done.returncode == 5


def test_measurements_with_their_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(("measurements", *arguments))
        return (int(ended.value.code or 0), *capsys.readouterr())

    monkeypatch.setenv("MODAK_MEASUREMENTS", f"sqlite:///{tmp_path}/store.sqlite")
    exported = call("export", "-", "--shipped")[1]
    (tmp_path / "all.jsonl").write_text(exported)
    assert not Path("-").exists()
    assert call("import", str(tmp_path / "all.jsonl"))[0] == 0
    entries = json.loads(call("list", "--json")[1])
    assert len(entries) == len(exported.splitlines())
    entry = next(entry for entry in entries if entry["seconds"] is not None)
    assert f"{entry['seconds']:.6g} s" in call("list")[1]
    code, out, _ = call("show", str(entry["id"]))
    assert (code, json.loads(out)["workload"]["model"]) == (0, entry["workload"])
    assert json.loads(call("show", str(entry["id"]), "--json")[1])[0] == json.loads(out)
    code, _, err = call("show", "999999")
    assert code == 2
    assert "no measurement has the id 999999" in err
