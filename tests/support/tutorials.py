"""Tutorials that run: the files and commands of a page in their order, and what the commands print.

A block ``yaml``, ``python`` or ``ini`` whose first line is a comment with a file name is that file. A block
``console`` has commands after ``$``, each with its output below, in which a line ``...`` stands for any lines; the
commands share a shell, as far as its folder goes. A block ``text`` has lines of the outputs above it, which another
run may have in another order and with other levers. A block ``sh`` is the installation, which only the newcomer's test
carries out.

``python tests/support/tutorials.py PAGE...`` runs pages and corrects the outputs in them. How long something took
differs from run to run, so that words, units and the order of columns are compared, and that figures stand where the
page has some. Of what Ansible counts (``changed=0``) the numbers are compared, too.
"""

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.trials import TrialState

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "docs" / "tutorials"
BLOCK = re.compile(r"^```(?P<kind>console|text|yaml|python|ini|sh)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (?P<name>[\w./-]+\.\w+)\n")
NUMBER = re.compile(r"(?<![a-z]=)(?<!\d)\d+(\.\d+)?")
"""A number that may be another one in the next run."""
HOST, USER = "login.example.org", "alice"
SHOWN_HOME = "/home/alice"


def environment(home: Path, ssh_config: Path | None = None) -> dict[str, str]:
    """Return the environment of somebody with this home, who has modak and Ansible from the checkout."""
    env = newcomer(home, ssh_config)
    return {
        **env,
        "PATH": f"{home / '.programs'}{os.pathsep}{TOP / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(TOP),
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
    }


def newcomer(home: Path, ssh_config: Path | None = None) -> dict[str, str]:
    """Return the environment of somebody with this home and no modak; ``HOST`` is the SSH configuration's host.

    OpenSSH takes the home from the user database, so that a command ``ssh`` stands before the real one.
    """
    programs = home / ".programs"
    programs.mkdir()
    if ssh_config is not None:
        config = programs / "config"
        config.write_text(ssh_config.read_text().replace("Host slurm-login", f"Host slurm-login {HOST}"))
        ssh = shutil.which("ssh")
        edit = f"s/{USER}/{login_user(ssh_config)}/"
        (programs / "ssh").write_text(
            f'#!/bin/bash\nwords=()\nfor word; do words+=("$(sed "{edit}" <<<"$word")"); done\n'
            f'exec {ssh} -F {config} "${{words[@]}}"\n'
        )
        (programs / "ssh").chmod(0o755)
    others = [path for path in os.environ["PATH"].split(os.pathsep) if Path(path) != TOP / ".venv" / "bin"]
    foreign = ("ANSIBLE_", "MODAK_", "XDG_", "OPERA_", "PYTHON", "VIRTUAL_ENV")
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(foreign)},
        "HOME": str(home),
        # pyenv's python3 looks for its versions in the home, which is another one here.
        "PATH": os.pathsep.join([str(programs), f"{sys.base_prefix}/bin", *others]),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def login_user(ssh_config: Path) -> str:
    """Return the user of an SSH configuration."""
    user = re.search(r"^\s*User\s+(\S+)", ssh_config.read_text(), re.MULTILINE)
    assert user is not None
    return user[1]


def login_home(ssh_config: Path | None) -> str:
    """Return the folder that is ``SHOWN_HOME`` on the login node."""
    return SHOWN_HOME if ssh_config is None else pwd.getpwnam(login_user(ssh_config)).pw_dir


def session(text: str, ssh_config: Path) -> str:
    """Return a page as one script for bash: its files, and all its commands, those of the installation too."""
    lines = ["set -eu -o pipefail"]
    for match in BLOCK.finditer(text):
        if match["kind"] in ("console", "sh"):
            typed = commands(match["body"]) if match["kind"] == "console" else match["body"].splitlines()
            for command in typed:
                lines += [f"echo {shlex.quote('$ ' + command)}", command]
        elif file := FILE.match(match["body"]):
            body = match["body"][file.end() :].replace(SHOWN_HOME, login_home(ssh_config))
            name = shlex.quote(file["name"])
            lines += [f'mkdir -p "$(dirname {name})"', f"printf %s {shlex.quote(body)} >{name}"]
    return "\n".join(lines) + "\n"


def commands(body: str) -> list[str]:
    """Return the commands of a console block."""
    return [line[2:] for line in body.splitlines() if line.startswith("$ ")]


def shown(body: str) -> list[str]:
    """Return the output below each command of a console block."""
    return [part.partition("\n")[2] for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]


class Shell:
    """Runs commands one after the other, each in the folder that the one before has gone to."""

    def __init__(self, folder: Path, env: Mapping[str, str], login: str) -> None:
        self.first = self.folder = folder
        self.env = env
        self.login = login

    def run(self, command: str) -> str:
        """Return what a command prints, with the names of the pages; AssertionError where it fails."""
        with tempfile.NamedTemporaryFile("r", dir=self.env["HOME"]) as place:
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", f"trap 'pwd >{place.name}' EXIT\n{command}"],
                cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stdout}"
            self.folder = Path(place.read().rstrip("\n"))
        text = done.stdout.replace(str(self.first), f"{SHOWN_HOME}/first")
        text = text.replace(self.env["HOME"], SHOWN_HOME).replace(self.login, SHOWN_HOME)
        lines = [line.rstrip() for line in text.splitlines()]
        return "".join(f"{line}\n" for line in lines).strip("\n") + ("\n" if text.strip() else "")


def executed(text: str, shell: Shell) -> str:
    """Return a page's text with the outputs that its commands print, those excepted that are as the page says."""
    outputs: list[str] = []

    def block(match: re.Match[str]) -> str:
        body = match["body"]
        if match["kind"] == "console":
            parts = []
            for command, before in zip(commands(body), shown(body), strict=True):
                printed = shell.run(command)
                outputs.append(printed)
                parts.append(f"$ {command}\n{before if same(before, printed) else printed}")
            return f"```console\n{''.join(parts)}```"
        if match["kind"] == "text":
            return f"```text\n{excerpt(body, ''.join(outputs))}```"
        if match["kind"] != "sh" and (file := FILE.match(body)):
            path = shell.first / file["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body[file.end() :].replace(SHOWN_HOME, shell.login))
        return match[0]

    return BLOCK.sub(block, text)


def same(expected: str, printed: str) -> bool:
    """Tell whether a command printed what a page shows, a line ``...`` of which stands for any lines.

    Where lines are wrapped does not matter: a number with a digit more is enough to move it.
    """
    pattern = "".join("(.* )?" if line == "..." else f"{re.escape(line)} " for line in comparable(expected))
    return re.fullmatch(pattern, "".join(f"{line} " for line in comparable(printed))) is not None


def excerpt(expected: str, printed: str) -> str:
    """Return the ``expected`` lines where all are among those ``printed``, else the latter that begin as they do."""
    # Where nobody watches, what happens while a command waits is told with the time (modak_deploy/deploy/screen.py).
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in printed.splitlines()]
    if {shape(line) for line in expected.splitlines()} <= {shape(line) for line in lines}:
        return expected
    begin = {line.split()[0] for line in expected.splitlines() if line.strip()}
    return "".join(f"{line}\n" for line in lines if line.split()[:1] and line.split()[0] in begin)


def shape(line: str) -> str:
    """Return a line on a trial without what differs: figures, which levers it is about, how it ended and why."""
    levers = "|".join(map(re.escape, sorted((*load_catalogue().levers, "as-is"), key=len, reverse=True)))
    plain = re.sub(rf"(?<![\w-])({levers})(\+({levers}))*(?![\w-])", "LEVER", " ".join(NUMBER.sub("0", line).split()))
    plain = re.sub(rf": ({'|'.join(get_args(TrialState))})\b", ": STATE", plain)
    return plain.rpartition(": ")[0] or plain


def comparable(text: str) -> list[str]:
    """Return the lines of a page without what differs from run to run: numbers, widths, lengths of lines."""
    plain = NUMBER.sub("0", text)
    return [re.sub(r"[*\s|-]+", " ", line).strip() for line in plain.splitlines() if line.strip()]


def run(page: Path, ssh_config: Path | None = None) -> str:
    """Return the text of a page, with the outputs of this run where they are others."""
    with tempfile.TemporaryDirectory(prefix="modak-tutorial.", dir="/var/tmp") as name:
        home = Path(name)
        folder = home / "first"
        folder.mkdir()
        return executed(page.read_text(), Shell(folder, environment(home, ssh_config), login_home(ssh_config)))


if __name__ == "__main__":
    config = Path(os.environ["MODAK_TUTORIAL_SSH"]) if "MODAK_TUTORIAL_SSH" in os.environ else None
    for argument in sys.argv[1:]:
        Path(argument).write_text(run(Path(argument), config))
