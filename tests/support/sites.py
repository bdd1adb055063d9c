"""A user's folder, and the playbooks run from there."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rig import TOP

TINY = TOP / "tests" / "data" / "applications" / "tiny.py"


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code, and all that it printed."""

    code: int
    text: str


class Site:
    """A user's folder with a document and a script, and the playbooks run from there."""

    def __init__(self, folder: Path, environment: dict[str, str], inventory: Path | None) -> None:
        self.folder, self.environment = folder, environment
        self.inventory = ["-i", str(inventory)] if inventory else []
        shutil.copy(TINY, folder / TINY.name)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def write(self, text: str | dict[str, Any]) -> Path:
        path = self.folder / "deploy.yml"
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
        return path

    def command(self, playbook: str, *arguments: str) -> list[str]:
        document = f"@{self.folder / 'deploy.yml'}"
        return ["ansible-playbook", f"modak.deploy.{playbook}", *self.inventory, "-e", document, *arguments]

    def play(self, playbook: str, *arguments: str, timeout: float = 120) -> Ended:
        """Run a playbook of the collection with the document, to its end."""
        with self.start(playbook, *arguments) as process:
            try:
                text, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ended(process.returncode, text)

    def start(self, playbook: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a playbook and leave it running; its output is one stream."""
        return subprocess.Popen(
            self.command(playbook, *arguments),
            cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
