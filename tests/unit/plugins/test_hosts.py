"""The hosts that modak adds to the inventory, and how ssh checks them whatever Ansible's configuration says."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from modak_deploy.model.target import Target

TOP = Path(__file__).resolve().parents[3]
UNCHECKED = {
    "ANSIBLE_HOST_KEY_CHECKING": "False",
    "ANSIBLE_SSH_ARGS": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ControlPersist=9s",
    "ANSIBLE_SSH_COMMON_ARGS": "-o StrictHostKeyChecking=accept-new -o ServerAliveCountMax=7",
}


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(TOP / ".collections")
    yield importlib.import_module("ansible_collections.modak.deploy.plugins.plugin_utils.hosts")
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        del sys.modules[name]


def settings(folder: Path, target: dict[str, object], environment: dict[str, str]) -> dict[str, str]:
    """Return what ssh makes of the arguments that Ansible gives it for a target."""
    application = {"name": "digits", "type": "hpc", "executable": "true"}
    (folder / "site.yml").write_text(json.dumps({"application": application, "target": target}))
    (folder / "targets.modak.yml").write_text(json.dumps({"plugin": "modak.deploy.targets", "files": ["site.yml"]}))
    (folder / "ssh").write_text(f'#!/bin/sh\nexec ssh -F /dev/null -G "$@" >{folder}/settings\n')
    (folder / "ssh").chmod(0o700)
    given = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_SSH_EXECUTABLE": str(folder / "ssh"),
        "ANSIBLE_INVENTORY_ENABLED": "modak.deploy.targets",
        **environment,
    }
    command = ["ansible", "-i", "targets.modak.yml", "all", "-m", "ansible.builtin.raw", "-a", "true"]
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=120)
    assert (folder / "settings").is_file(), done.stdout + done.stderr
    pairs = [line.split(" ", 1) for line in (folder / "settings").read_text().splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def test_a_host_with_known_hosts_of_its_own_is_checked_against_these_alone(tmp_path: Path) -> None:
    target = {"name": "there", "host": "there.example.org", "known_hosts": str(tmp_path / "100% mine")}
    effective = settings(tmp_path, target, UNCHECKED)
    assert effective["stricthostkeychecking"] in ("true", "yes")
    assert effective["nohostauthenticationforlocalhost"] == "no"
    assert effective["userknownhostsfile"].replace("%%", "%").strip('"') == str(tmp_path / "100% mine")
    assert effective["globalknownhostsfile"] == "/dev/null"
    assert (effective["controlpersist"], effective["serveralivecountmax"]) == ("9", "7"), "the user's remain"


def test_a_connection_is_shared_as_ansible_does_by_default(tmp_path: Path) -> None:
    target = {"name": "there", "host": "there.example.org", "known_hosts": str(tmp_path / "mine")}
    assert settings(tmp_path, target, {})["controlpersist"] == "60"


@pytest.mark.parametrize("tasks", ["application/tasks/host.yml", "cloud/tasks/reach.yml"])
def test_each_variable_of_a_connection_reaches_the_host(hosts: ModuleType, tasks: str) -> None:
    target = {"host": "there", "user": "me", "port": 2222, "private_key": "key", "known_hosts": "mine"}
    adding = [task["ansible.builtin.add_host"] for task in yaml.safe_load((TOP / "roles" / tasks).read_text())
              if "ansible.builtin.add_host" in task]  # fmt: skip
    added = {name for task in adding for name in task if name.startswith("ansible_")}
    assert set(hosts.host_vars(Target.model_validate({"name": "there", **target}))) == added
    assert set(hosts.VARIABLES) == added


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ({"worksapce": "/scratch"}, "modak_site: unknown key 'worksapce'; did you mean 'workspace'?"),
        ({"runtimes": "native"}, "modak_site.runtimes: must be a list, not 'native'"),
        ({"node": {"coers": 3}}, "modak_site.node: unknown key 'coers'; did you mean 'cores'?"),
    ],
)
def test_an_error_in_the_description_of_a_host_names_the_host(tmp_path: Path, site: object, message: str) -> None:
    application = {"name": "digits", "type": "hpc", "executable": "true"}
    target = {"name": "cluster", "host": "there"}
    (tmp_path / "deploy.yml").write_text(json.dumps({"application": application, "target": target}))
    hosts = {"localhost": {"ansible_connection": "local"}, "there": {"modak_site": site}}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    task = {"modak.deploy.deployment": {"documents": ["deploy.yml"]}}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    given = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
    }
    command = ["ansible-playbook", "-i", "inventory.yml", "play.yml"]
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=120)
    assert f'"msg": "the host there in the inventory: {message}"' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("variables", [False, True])
def test_the_description_of_a_host_may_name_a_site(tmp_path: Path, variables: bool) -> None:
    """With documents it was dropped, and the target was a machine."""
    sections = {"application": {"name": "digits", "type": "hpc", "executable": "true"}}
    sections["target"] = {"name": "cluster", "host": "there"}
    (tmp_path / "deploy.yml").write_text(json.dumps(sections))
    (tmp_path / "sites.yaml").write_text(json.dumps({"version": 1, "sites": {"lumi": {"target": {"type": "slurm"}}}}))
    hosts = {"localhost": {"ansible_connection": "local"}, "there": {"modak_site": {"site": "lumi"}}}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    tasks = [
        {"modak.deploy.deployment": sections if variables else {"documents": ["deploy.yml"]}, "register": "made"},
        {"ansible.builtin.debug": {"msg": "a target of type {{ made.deployment.target.type }}"}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    given = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "MODAK_SITES": str(tmp_path / "sites.yaml"),
    }
    command = ["ansible-playbook", "-i", "inventory.yml", "play.yml"]
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=120)
    assert '"msg": "a target of type slurm"' in done.stdout, done.stdout + done.stderr
