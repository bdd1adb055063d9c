"""Command lines of documents: what they do is what the shell makes of the same text."""

import subprocess
from pathlib import Path

import pytest

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
