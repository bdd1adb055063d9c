"""A real cluster asked about itself: by the command over ssh, by the module, and by the hosts of an inventory."""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from rig import TOP, Rig

PLAY = [
    {
        "name": "Ask",
        "hosts": "modak",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Compare the target with its description",
                "modak.deploy.target_info": {"target": "{{ modak_site }}"},
                "register": "found",
            },
            {
                "name": "Keep what came",
                "ansible.builtin.copy": {
                    "content": "{{ found | to_json }}",
                    "dest": "{{ playbook_dir }}/{{ inventory_hostname }}.json",
                    "mode": "0600",
                },
                "delegate_to": "localhost",
                "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            },
        ],
    }
]


@pytest.fixture
def address(real_slurm: Rig) -> dict[str, Any]:
    """Return how to reach the login node, as a target says it."""
    text = real_slurm.ssh_config.read_text()
    said = dict(re.findall(r"^\s+(\w+) (.+)$", text, re.MULTILINE))
    return {
        "host": "127.0.0.1",
        "port": int(said["Port"]),
        "user": said["User"],
        "private_key": said["IdentityFile"],
        "known_hosts": said["UserKnownHostsFile"],
    }


def modak(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modak_deploy.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_command_over_ssh(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    done = modak(tmp_path, environment, "discover", "slurm-login", "--ssh-config", str(real_slurm.ssh_config))
    assert (done.returncode, done.stderr) == (0, "")
    target = yaml.safe_load(done.stdout)["target"]
    assert (target["name"], target["type"], target["host"]) == ("slurm-login", "slurm", "slurm-login")
    partitions = {partition["name"]: partition for partition in target["partitions"]}
    assert sorted(partitions) == ["cpu", "gpu"]
    assert partitions["cpu"]["default"] is True
    assert partitions["gpu"]["nodes"] == 2
    assert partitions["cpu"]["node"]["cores"] == 8
    assert partitions["cpu"]["node"]["memory"] == 4000 * 1024**2
    assert partitions["gpu"]["node"]["accelerators"] == [{"model": "gpu", "count": 2}]
    # All its nodes run on the host that answered, and so have its processor.
    assert partitions["cpu"]["node"]["microarchitecture"]


def test_plan_over_ssh(tmp_path: Path, environment: dict[str, str], address: dict[str, Any]) -> None:
    document = {
        "application": {"name": "tiny", "script": "tiny.py"},
        "target": {"name": "rig", "type": "slurm", "python": "/usr/bin/python3", **address},
        "job": {"partition": "gpu", "gpus": 2, "nodes": 2, "ranks_per_node": 2, "cores_per_rank": 4},
    }
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump(document))
    folder = TOP / "tests" / "data" / "applications"
    done = modak(tmp_path, environment, "plan", "deploy.yml", "--search", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["scheduler"] == "slurm"
    assert plan["facts"]["scheduler_version"]
    assert plan["chosen"]["argv"] == ["/usr/bin/python3", "tiny.py"]
    assert plan["chosen"]["resources"] == {"nodes": 2, "ranks": 4, "ranks_per_node": 2, "threads": 4, "gpus": 2}


def test_python_that_the_user_may_not_execute(
    tmp_path: Path, environment: dict[str, str], address: dict[str, Any]
) -> None:
    """The environment can be read, and the Python that it was made from belongs to somebody else."""
    with TemporaryDirectory(dir="/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "closed").mkdir(mode=0o700)
        (top / "closed" / "python3").symlink_to("/usr/bin/python3")
        (top / "venv" / "bin").mkdir(parents=True)
        (top / "venv" / "bin" / "python3").symlink_to(top / "closed" / "python3")
        (top / "venv" / "pyvenv.cfg").write_text(f"home = {top}/closed\n")
        python = f"{top}/venv/bin/python3"
        document = {
            "application": {"name": "tiny", "script": "tiny.py"},
            "target": {"name": "rig", "type": "slurm", "python": python, **address},
        }
        (tmp_path / "deploy.yml").write_text(yaml.safe_dump(document))
        folder = TOP / "tests" / "data" / "applications"
        done = modak(tmp_path, environment, "plan", "deploy.yml", "--search", str(folder))
        assert (done.returncode, done.stdout) == (4, "")
        assert f"deploy.yml:10: target.python: {python} cannot be executed on " in done.stderr
        assert done.stderr.endswith(f": {top}/closed does not permit it to this user\n")


def test_description_is_compared(tmp_path: Path, environment: dict[str, str], address: dict[str, Any]) -> None:
    partitions = [{"name": "cpu", "nodes": 3, "node": {"cores": 8}}, {"name": "cpux"}]
    target = {"name": "rig", "type": "slurm", **address, "partitions": partitions}
    (tmp_path / "rig.yml").write_text(yaml.safe_dump({"target": target}))
    done = modak(tmp_path, environment, "discover", "--check", "rig.yml")
    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "rig.yml: rig: target.partitions[0].nodes: the description says 3, and 2 was found",
        "rig.yml: rig: target.partitions[1]: partition 'cpux' not found; there are cpu, gpu",
    ]
    target["partitions"] = [{"name": "cpu", "default": True, "nodes": 2}]
    (tmp_path / "rig.yml").write_text(yaml.safe_dump({"target": target}))
    assert modak(tmp_path, environment, "discover", "--check", "rig.yml").returncode == 0


def test_a_key_that_is_not_known_is_refused(
    tmp_path: Path, environment: dict[str, str], address: dict[str, Any]
) -> None:
    (tmp_path / "known_hosts").write_text("")
    target = {"name": "rig", "type": "slurm", **address, "known_hosts": str(tmp_path / "known_hosts")}
    (tmp_path / "rig.yml").write_text(yaml.safe_dump({"target": target}))
    done = modak(tmp_path, environment, "discover", "--check", "rig.yml")
    assert done.returncode == 4
    assert "is not in known_hosts" in done.stderr


def test_inventory_and_module(tmp_path: Path, environment: dict[str, str], address: dict[str, Any]) -> None:
    slurm = {"name": "rig", "type": "slurm", **address, "partitions": [{"name": "cpu", "nodes": 3}]}
    (tmp_path / "slurm.yml").write_text(yaml.safe_dump({"target": slurm}))
    (tmp_path / "here.yml").write_text(yaml.safe_dump({"target": {"name": "here"}}))
    inventory = {"plugin": "modak.deploy.targets", "files": ["slurm.yml", "here.yml"]}
    (tmp_path / "targets.modak.yml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAY, sort_keys=False))
    command = ["ansible-playbook", "-i", "targets.modak.yml", "play.yml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rig = json.loads((tmp_path / "127.0.0.1.json").read_text())
    assert rig["changed"] is False
    assert rig["facts"]["scheduler"] == "slurm"
    assert [partition["name"] for partition in rig["target"]["partitions"]] == ["cpu", "gpu"]
    assert rig["differences"] == ["target.partitions[0].nodes: the description says 3, and 2 was found"]
    here = json.loads((tmp_path / "this-machine.json").read_text())
    assert here["differences"] == []
    assert here["target"]["type"] == "machine"
    assert here["facts"]["packages"]["ansible-core"]


@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        ({"files": ["absent.yml"]}, "absent.yml: file not found"),
        ({"files": ["bad.yml"]}, "bad.yml:1: target: unknown key 'hots'; did you mean 'host'?"),
        ({"files": ["one.yml", "two.yml"]}, "two.yml: the host h is another target in a file before"),
    ],
)
def test_inventory_that_cannot_be_read(
    inventory: dict[str, Any], words: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "bad.yml").write_text("target: {name: a, hots: b}\n")
    (tmp_path / "one.yml").write_text("target: {name: a, host: h}\n")
    (tmp_path / "two.yml").write_text("target: {name: a, host: h, type: slurm}\n")
    (tmp_path / "targets.modak.yml").write_text(yaml.safe_dump({"plugin": "modak.deploy.targets", **inventory}))
    command = ["ansible-inventory", "-i", "targets.modak.yml", "--list"]
    strict = {**environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
    done = subprocess.run(command, cwd=tmp_path, env=strict, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
