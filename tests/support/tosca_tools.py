"""The other tools that read TOSCA, each in a virtual environment of its own."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig import TOP
from sites import Ended

ENVIRONMENTS = TOP / ".build" / "tosca"
NEEDS = {
    "puccini": ["puccini==0.21.0"],
    # What it pins of MarkupSafe has no wheel for every Python and is built without isolation.
    "unfurl": ["wheel", "unfurl==1.2.0"],
}
PATIENCE = 60
"""Seconds that a tool may take."""
HANGS = "does not come back"
_PUCCINI = """
import sys, puccini.tosca
try:
    puccini.tosca.compile(sys.argv[1])
except puccini.tosca.Problems as error:
    sys.exit("\\n".join(f"{p.get('row', '')}: {p.get('message', p)}" for p in error.problems))
"""


@dataclass(frozen=True)
class Verdict:
    """What a tool says of a blueprint."""

    accepted: bool
    text: str


def make(tool: str) -> Path:
    """Make the tool's virtual environment unless it is there; return its folder. CalledProcessError tells why not.

    Two workers of one test run may want it at once.
    """
    folder = ENVIRONMENTS / tool
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{tool}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "ready"
        if not mark.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
            pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
            for need in NEEDS[tool]:
                subprocess.run([*pip, need], check=True, capture_output=True, text=True)
            mark.touch()
    return folder


def validate(tool: str, blueprint: Path) -> Verdict:
    """Ask one of tosca-parser, opera, unfurl and puccini what it thinks of a blueprint."""
    here = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as home:
        commands = {
            "tosca-parser": [here / "tosca-parser", f"--template-file={blueprint}"],
            "opera": [here / "opera", "validate", "--instance-path", home, blueprint],
            "unfurl": [ENVIRONMENTS / "unfurl/bin/unfurl", "--no-version-check", "--home", "", "validate", blueprint],
            "puccini": [ENVIRONMENTS / "puccini/bin/python", "-c", _PUCCINI, blueprint],
        }
        try:
            done = subprocess.run(
                commands[tool],
                cwd=blueprint.parent, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "NO_COLOR": "1", "UNFURL_NORUNTIME": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict(False, HANGS)
    return Verdict(done.returncode == 0, done.stdout + done.stderr)


def case_files(case: Mapping[str, Any], folder: Path) -> Path:
    """Write a template of unusual-templates.yaml with its files, and return its path."""
    for name, text in {**case.get("files", {}), "service.yaml": case["text"]}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder / "service.yaml"


def unfurl(folder: Path, environment: Mapping[str, str], *words: str) -> Ended:
    """Run a command of Unfurl's in a folder, to its end; the Ansible of the playbooks is that of ``environment``."""
    done = subprocess.run(
        [ENVIRONMENTS / "unfurl/bin/unfurl", "--no-version-check", "--home", "", *words],
        cwd=folder, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL,
        env={**environment, "UNFURL_NORUNTIME": "1", "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    return Ended(done.returncode, done.stdout + done.stderr)
