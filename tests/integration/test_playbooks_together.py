"""Several playbooks in one run, and one host under two descriptions: Ansible keeps hosts and their variables."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml


class Controller:
    """A user's folder with an inventory of two hosts, which are this machine."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        hosts = {host: {"ansible_connection": "local"} for host in ("w1", "w2")}
        self.write("inventory.yml", {"workers": {"hosts": hosts}})

    def write(self, name: str, content: Any) -> None:
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def document(self, name: str, **sections: Any) -> None:
        application = {"name": name, "type": "hpc", "executable": "sh", "arguments": ["-c", "pwd >out"]}
        self.write(f"{name}.yml", {"application": {**application, "outputs": ["out"]}, **sections})

    def run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    def target(self, host: str, **more: Any) -> dict[str, Any]:
        space = str(self.folder / "space" / host)
        return {"name": "worker", "host": host, "workspace": space, "polling": {"first": 0.2, "maximum": 1.0}, **more}

    def jobs(self) -> list[tuple[str, str]]:
        """Return the host and the name of each job that has a folder."""
        runs = (self.folder / "space").glob("*/runs/*")
        return sorted((path.parts[-3], path.name.rpartition("-")[0]) for path in runs)


@pytest.fixture
def controller(tmp_path: Path, environment: dict[str, str]) -> Controller:
    return Controller(tmp_path, environment)


def both(playbook: str) -> list[dict[str, Any]]:
    kind = {"ansible.builtin.import_playbook": f"modak.deploy.{playbook}"}
    return [{**kind, "vars": {"deployment": f"{name}.yml"}} for name in ("one", "two")]


def test_each_of_two_playbooks_deploys_on_its_own_host(controller: Controller) -> None:
    controller.document("one", target=controller.target("w1"))
    controller.document("two", target=controller.target("w2"))
    controller.write("both.yml", both("deploy"))
    code, text = controller.run("ansible-playbook", "-i", "inventory.yml", "both.yml")
    assert code == 0, text
    assert controller.jobs() == [("w1", "one"), ("w2", "two")]
    assert sorted(str(path.relative_to(controller.folder)) for path in controller.folder.rglob("results/**/out")) == [
        "results/one/out", "results/two/out",
    ]  # fmt: skip
    controller.write("neither.yml", both("undeploy"))
    code, text = controller.run("ansible-playbook", "-i", "inventory.yml", "neither.yml")
    assert code == 0, text
    assert controller.jobs() == []


def test_the_syntax_of_playbooks_can_be_checked(controller: Controller) -> None:
    for playbook in ("deploy", "undeploy", "benchmark", "tune"):
        code, text = controller.run("ansible-playbook", "--syntax-check", f"modak.deploy.{playbook}")
        assert code == 0, text


FAULT = "the host far.example.org is described twice in this run, with another user, port or key"


def test_two_targets_of_one_host_that_are_reached_in_two_ways(controller: Controller) -> None:
    first, other = (controller.target("far.example.org", name=name, port=port) for name, port in (("a", 22), ("b", 2)))
    controller.document("one", target=first, other_targets=[other])
    code, text = controller.run("ansible-playbook", "modak.deploy.deploy", "-e", "deployment=one.yml")
    assert code == 2, text
    assert FAULT in " ".join(text.split())


def test_a_host_that_a_playbook_before_reached_otherwise(controller: Controller) -> None:
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "modak.deploy.application", "tasks_from": "target"},
            "vars": {"application_documents": f"{name}.yml"},
        }
        for name in ("one", "one", "two")
    ]
    controller.document("one", target=controller.target("far.example.org", user="alice"))
    controller.document("two", target=controller.target("far.example.org", user="bob"))
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    controller.write("alike.yml", [{**play, "tasks": tasks[:2]}])
    code, text = controller.run("ansible-playbook", "alike.yml")
    assert code == 0, text
    controller.write("play.yml", [{**play, "tasks": tasks}])
    code, text = controller.run("ansible-playbook", "play.yml")
    assert code == 2, text
    assert FAULT in " ".join(text.split())


def test_the_inventory_has_one_way_to_a_host(controller: Controller) -> None:
    for name, user in (("one", "alice"), ("two", "bob")):
        controller.document(name, target=controller.target("far.example.org", user=user))
    controller.write("t.modak.yml", {"plugin": "modak.deploy.targets", "files": ["one.yml", "two.yml"]})
    command = ("ansible-inventory", "-i", "t.modak.yml", "--list")
    environment = {**controller.environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
    controller.environment = environment
    code, text = controller.run(*command)
    assert code != 0, text
    assert "two.yml: the host far.example.org is another target in a file before: describe it once" in " ".join(
        text.split()
    )
    controller.document("two", target=controller.target("far.example.org", user="alice"))
    code, text = controller.run(*command)
    assert code == 0, text
