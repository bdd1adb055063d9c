"""Plays of single tasks, as a user writes them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml


class User:
    """A user's folder, and plays that are run from there."""

    def __init__(self, folder: Path, environment: dict[str, str], inventory: list[str], host: str) -> None:
        self.folder, self.environment, self.inventory, self.host = folder, environment, inventory, host

    def start(self, tasks: list[dict[str, Any]], *arguments: str, **keywords: Any) -> subprocess.Popen[str]:
        """Start a play of the tasks; what they return is kept in ``returned.json``."""
        for number, task in enumerate(tasks):
            task.setdefault("register", f"returned{number}")
        names = [task["register"] for task in tasks]
        keep = {
            "ansible.builtin.copy": {
                "content": "{{ [" + ", ".join(names) + "] | to_json }}",
                "dest": str(self.folder / "returned.json"),
                "mode": "0600",
            },
            "delegate_to": "localhost",
            "check_mode": False,
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        }
        play = [{"hosts": self.host, "gather_facts": False, "tasks": [*tasks, keep], **keywords}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(play, sort_keys=False))
        command = ["ansible-playbook", *self.inventory, "play.yml", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def play(
        self, tasks: list[dict[str, Any]], *arguments: str, timeout: float = 120, **keywords: Any
    ) -> tuple[int, str]:
        process = self.start(tasks, *arguments, **keywords)
        text, _ = process.communicate(timeout=timeout)
        return process.returncode, text

    def returned(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "returned.json").read_text())
