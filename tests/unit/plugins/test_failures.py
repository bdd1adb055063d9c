"""What a task returns where a job ends badly: docs/diagnostics.md promises diagnostics with each failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]


def test_a_task_returns_diagnostics_of_jobs_that_ended_badly(tmp_path: Path) -> None:
    target = {"name": "here", "workspace": str(tmp_path / "space"), "python": sys.executable}
    application = {
        "name": "f{{ item }}",
        "type": "hpc",
        "executable": "/bin/sh",
        "arguments": ["-c", "exit {{ item }}"],
    }
    optimise = {"application": application, "target": target}
    results = {"results": str(tmp_path / "results"), "retry": False}
    plans = "{{ decided.results | map(attribute='plan') }}"
    failing = {"plan": "{{ decided.results[0].plan }}", **results}
    tasks = [
        {"modak.deploy.optimise": optimise, "loop": [3, 4], "register": "decided"},
        {"modak.deploy.batch_job": failing, "register": "single", "ignore_errors": True},
        {"modak.deploy.batch_job": {"plans": plans, **results}, "register": "several", "ignore_errors": True},
        {"ansible.builtin.copy": {"content": "{{ [single, several] | to_json }}", "dest": str(tmp_path / "returned")}},
    ]
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = ["ansible-playbook", "play.yml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    single, several = json.loads((tmp_path / "returned").read_text())
    assert [item["code"] for item in single["diagnostics"]] == ["job"]
    assert single["diagnostics"][0]["message"] == single["msg"]
    codes = [(item["code"], "exit code" in item["message"]) for item in several["diagnostics"]]
    assert codes == [("job", True), ("job", True)]
