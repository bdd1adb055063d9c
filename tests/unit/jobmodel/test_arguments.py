"""Command lines of documents: what they do is what the shell makes of the same text."""

import subprocess
from pathlib import Path

import pytest

from jobmodel_parts import answered, document
from modak_deploy.jobmodel.arguments import argv_of

LINES = [
    "printf '%s\\n' a 'b  c' \"d $NAME\" >out",
    "cat <in",
    "cat < 'in' >>out",
    "cat in >out 2>&1",
    "cat nothing 2>err",
    "cat nothing in 2>err >out",
    "printf %s 2>out",
    "printf %s x2>out",
    "printf %s a>out",
    "printf %s '>' \\> \">>\"",
    'cat <"$NAME"',
    "sh -c 'cat <in; exit 3' >out",
]


def _run(folder: Path, argv: list[str]) -> tuple[int, str, dict[str, str]]:
    folder.mkdir()
    (folder / "in").write_text("1 2\n")
    (folder / "x y").write_text("blank\n")
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, env={"NAME": "x y", "PATH": "/usr/bin:/bin"}
    )
    return done.returncode, done.stdout, {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_does_what_a_shell_does(tmp_path: Path, line: str) -> None:
    program, _, rest = line.partition(" ")
    argv = argv_of("executable", program, "arguments", rest)
    assert _run(tmp_path / "made", argv) == _run(tmp_path / "shell", ["sh", "-c", line])


@pytest.mark.parametrize("program", ["tool.py", '"$FOLDER"/tool.py'])
@pytest.mark.parametrize("rest", ["1 '2 3'", '"$NAME"', "1 >out", "<in"])
def test_a_python_file_is_given_to_python_whatever_its_arguments_hold(tmp_path: Path, program: str, rest: str) -> None:
    (tmp_path / "tool.py").write_text("import sys; print(sys.argv[1:], sys.stdin.read())")  # nobody may execute it
    (tmp_path / "in").write_text("read\n")
    environment = {"NAME": "x y", "FOLDER": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def result(argv: list[str]) -> tuple[str, list[str]]:
        done = subprocess.run(argv, cwd=tmp_path, input=b"", capture_output=True, env=environment, check=True)
        return done.stdout.decode(), [path.read_text() for path in tmp_path.glob("out")]

    argv = argv_of("executable", program, "arguments", rest, python=True)
    assert result(argv) == result(["sh", "-c", f"python3 {program} {rest}"])
    assert (argv[0] == "python3") == ("$" not in program + rest and ">" not in rest and "<" not in rest)


def test_a_document_of_python_with_a_redirection() -> None:
    change = {"application/app_type": "python", "application/executable": "tool.py", "application/arguments": ">out"}
    script = answered(document("plain", change)).job_script
    assert "sh -c 'exec python3 tool.py > out'" in script
