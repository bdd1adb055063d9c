"""Tutorials that run: the files and commands of a page in their order, and what the commands print.

A block ``yaml``, ``python`` or ``ini`` whose first line is a comment with a file name is that file. A block
``console`` has commands after ``$``, each with its output below. ``python tests/support/tutorials.py PAGE...`` runs
pages and writes the outputs into them; numbers, times and folders differ from run to run and are not compared.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "docs" / "tutorials"
BLOCK = re.compile(r"^```(?P<kind>console|yaml|python|ini)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (?P<name>[\w./-]+\.\w+)\n")
HOST, USER = "login.example.org", "alice"
SHOWN_HOME = "/home/alice"


def environment(home: Path, ssh_config: Path | None = None) -> dict[str, str]:
    """Return the environment of a newcomer with this home, for whom ``HOST`` is the host of the SSH configuration.

    OpenSSH takes the home from the user database, so that a command ``ssh`` stands before the real one.
    """
    programs = home / ".programs"
    programs.mkdir()
    if ssh_config is not None:
        user = re.search(r"^\s*User\s+(\S+)", ssh_config.read_text(), re.MULTILINE)
        assert user is not None
        config = home / ".programs" / "config"
        config.write_text(ssh_config.read_text().replace("Host slurm-login", f"Host slurm-login {HOST}"))
        ssh = shutil.which("ssh")
        edit = f"s/{USER}/{user[1]}/"
        (programs / "ssh").write_text(
            f'#!/bin/bash\nwords=()\nfor word; do words+=("$(sed "{edit}" <<<"$word")"); done\n'
            f'exec {ssh} -F {config} "${{words[@]}}"\n'
        )
        (programs / "ssh").chmod(0o755)
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "MODAK_", "XDG_", "OPERA_"))},
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{TOP / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(TOP),
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def commands(body: str) -> list[str]:
    """Return the commands of a console block."""
    return [line[2:] for line in body.splitlines() if line.startswith("$ ")]


def executed(text: str, folder: Path, env: Mapping[str, str]) -> str:
    """Return a page's text with the outputs that its commands print in ``folder``; AssertionError where one fails."""

    def block(match: re.Match[str]) -> str:
        body = match["body"]
        if match["kind"] != "console":
            if file := FILE.match(body):
                path = folder / file["name"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body[file.end() :])
            return match[0]
        parts = [f"$ {command}\n{printed(command, folder, env)}" for command in commands(body)]
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(block, text)


def printed(command: str, folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    shown = done.stdout.replace(str(folder), f"{SHOWN_HOME}/first").replace(env["HOME"], SHOWN_HOME)
    lines = [line.rstrip() for line in shown.splitlines()]
    return "".join(f"{line}\n" for line in lines).strip("\n") + ("\n" if shown.strip() else "")


def comparable(text: str) -> list[str]:
    """Return the lines of a page without what differs from run to run: numbers, widths, lengths of lines."""
    plain = re.sub(r"\d+(\.\d+)?", "0", text)
    return [re.sub(r"[*\s|-]+", " ", line).strip() for line in plain.splitlines() if line.strip()]


def run(page: Path, ssh_config: Path | None = None) -> str:
    """Return the text of a page with the outputs of this run."""
    with tempfile.TemporaryDirectory(prefix="modak-tutorial.", dir="/var/tmp") as name:
        home = Path(name)
        folder = home / "first"
        folder.mkdir()
        return executed(page.read_text(), folder, environment(home, ssh_config))


if __name__ == "__main__":
    config = Path(os.environ["MODAK_TUTORIAL_SSH"]) if "MODAK_TUTORIAL_SSH" in os.environ else None
    for argument in sys.argv[1:]:
        Path(argument).write_text(run(Path(argument), config))
