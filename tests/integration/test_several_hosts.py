"""The roles in a play of several hosts: one job name, one results folder, and a workspace for each host."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

HOSTS = ("w1", "w2", "w3")
ROLE = {
    "application_definition": {
        "name": "probe",
        "executable": "sh",
        "arguments": ["-c", "pwd >out"],
        "outputs": ["out"],
        "type": "hpc",
    },
    "application_target": {
        "name": "worker",
        "workspace": "{{ workspace }}",
        "polling": {"first": 0.2, "maximum": 1.0},
    },
}


class Workers:
    """A user with three hosts, each with a workspace of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        hosts = {host: {"ansible_connection": "local", "workspace": f"{folder}/space/{host}"} for host in HOSTS}
        (folder / "inventory.yml").write_text(yaml.safe_dump({"workers": {"hosts": hosts}}))

    def play(self, *tasks: dict[str, Any], hosts: str = "workers", limit: str = "") -> tuple[int, str]:
        play = [{"hosts": hosts, "gather_facts": False, "tasks": list(tasks)}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(play, sort_keys=False))
        command = ["ansible-playbook", "-i", "inventory.yml", "play.yml", *(["--limit", limit] if limit else [])]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    def outputs(self) -> dict[str, str]:
        """Return the host in whose workspace each result was made, by the result's folder."""
        results, space = self.folder / "results", self.folder / "space"
        return {
            str(file.parent.relative_to(results)): Path(file.read_text().strip()).relative_to(space).parts[0]
            for file in sorted(results.rglob("out"))
        }

    def jobs(self) -> list[str]:
        """Return the hosts that have a job's folder."""
        return sorted(path.parts[-3] for path in (self.folder / "space").glob("*/runs/*"))


@pytest.fixture
def workers(tmp_path: Path, environment: dict[str, str]) -> Workers:
    return Workers(tmp_path, environment)


def role(entry: str = "main", *, kind: str = "include_role", **keywords: Any) -> dict[str, Any]:
    return {
        f"ansible.builtin.{kind}": {"name": "modak.deploy.application", "tasks_from": entry},
        "vars": ROLE,
        **keywords,
    }


def test_each_host_has_its_own_results(workers: Workers) -> None:
    code, text = workers.play(role())
    assert code == 0, text
    assert workers.outputs() == {f"{host}/probe": host for host in HOSTS}
    assert workers.jobs() == list(HOSTS)
    code, text = workers.play(role())
    assert code == 0, text
    assert "changed=0" in text
    assert not [word for word in text.split() if word.startswith("changed=") and word != "changed=0"]
    # A host that is alone finds what the play of several has left.
    code, text = workers.play(role("undeploy"), limit="w2")
    assert code == 0, text
    assert workers.jobs() == ["w1", "w3"]
    code, text = workers.play(role("undeploy"))
    assert code == 0, text
    assert workers.jobs() == []
    assert not (workers.folder / "results" / "probe").exists()


def test_one_host_keeps_the_layout_without_its_name(workers: Workers) -> None:
    code, text = workers.play(role(), hosts="w2")
    assert code == 0, text
    assert workers.outputs() == {"probe": "w2"}
    code, text = workers.play(role("undeploy"), hosts="w2")
    assert code == 0, text
    assert workers.jobs() == []


@pytest.mark.parametrize("kind", ["include_role", "import_role"])
def test_role_that_runs_once_keeps_it_too(workers: Workers, kind: str) -> None:
    code, text = workers.play(role(kind=kind, run_once=True))
    assert code == 0, text
    assert workers.outputs() == {"probe": "w1"}
    code, text = workers.play({"block": [role("undeploy", kind=kind, run_once=True)]})
    assert code == 0, text
    assert workers.jobs() == []


def test_results_that_the_user_keeps_apart_stay_as_they_are(workers: Workers) -> None:
    apart = role()
    apart["vars"] = {**ROLE, "application_results": "results/{{ inventory_hostname }}"}
    code, text = workers.play(apart)
    assert code == 0, text
    assert workers.outputs() == {f"{host}/probe": host for host in HOSTS}


def test_modules_alone_keep_hosts_apart(workers: Workers) -> None:
    decide = {
        "modak.deploy.optimise": {
            "application": ROLE["application_definition"],
            "target": ROLE["application_target"],
            "results": "results",
        },
        "register": "decision",
    }
    submit = {"modak.deploy.batch_job": {"plan": "{{ decision.plan }}", "wait": False}}
    wait = {"modak.deploy.batch_job_wait": {"plans": ["{{ decision.plan }}"]}}
    code, text = workers.play(decide, submit, wait)
    assert code == 0, text
    assert workers.outputs() == {f"{host}/probe": host for host in HOSTS}
