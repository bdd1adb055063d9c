"""With ``no_log`` nothing of a task is printed: neither while it runs nor where it fails."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[3]
VALUE = "vault-4712"
PRINTS = "import os; print(os.environ['TOKEN'], flush=True); raise SystemExit(%d)"


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """What all actions share."""
    monkeypatch.syspath_prepend(TOP / ".collections")
    yield importlib.import_module("ansible_collections.modak.deploy.plugins.plugin_utils.action")
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        del sys.modules[name]


def act(action: ModuleType, returned: dict[str, Any], *, no_log: bool) -> tuple[list[str], dict[str, Any]]:
    """Return what an action prints while it runs, and what it returns."""

    class Example(action.ModakAction):  # type: ignore[misc, name-defined]
        def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            self.show(VALUE)
            self.warn(VALUE)
            return returned

    printed: list[str] = []
    task = SimpleNamespace(args={}, async_val=0, check_mode=False, diff=False, no_log=no_log, action="example")
    example = Example.__new__(Example)
    example._task = task
    example._display = SimpleNamespace(display=lambda text, stderr: printed.append(text), warning=printed.append)
    example._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    return printed, example.run(None, {})


def test_an_action_shows_lines_and_warnings_without_no_log_alone(action: ModuleType) -> None:
    returned = {"failed": True, "msg": f"it failed\nThe last lines of the log:\n | {VALUE}", "warnings": [VALUE]}
    printed, result = act(action, returned, no_log=False)
    assert (printed, result) == ([VALUE, VALUE], returned)
    printed, result = act(action, returned, no_log=True)
    assert (printed, result) == ([], {"failed": True, "msg": "it failed"})


def test_no_action_prints_past_what_all_share() -> None:
    files = [file for folder in ("action", "plugin_utils") for file in (TOP / "plugins" / folder).glob("*.py")]
    printing = [file.name for file in files if "isplay" in file.read_text().replace("DisplayReporter", "")]
    assert printing == ["action.py"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_that_is_followed_prints_nothing_with_no_log(tmp_path: Path, code: int) -> None:
    """Its output, its state and the end of its log are the application's."""
    (tmp_path / "print.py").write_text(PRINTS % code)
    application = {"name": "hidden", "type": "hpc", "script": "print.py", "environment": {"TOKEN": VALUE}}
    target = {"name": "here", "workspace": str(tmp_path / "space"), "python": sys.executable}
    run = {"plan": "{{ decided.plan }}", "follow": True, "results": str(tmp_path / "results")}
    tasks = [
        {"modak.deploy.optimise": {"application": application, "target": target}, "register": "decided"},
        {"modak.deploy.batch_job": run},
    ]
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "no_log": True, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = ["ansible-playbook", "play.yml", "--diff"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    printed = done.stdout + done.stderr
    assert (done.returncode != 0) == (code != 0), printed
    assert VALUE in (tmp_path / "results" / "hidden" / "output.log").read_text()
    assert VALUE not in printed
    assert "waiting for job" not in printed
