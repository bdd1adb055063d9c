"""The same description gives the same Plan, byte for byte except its date, and one job, by every way in."""

import json
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import Orchestrator, connection, folders
from rig import TOP, Rig
from sites import TINY

DIGITS = TOP / "examples" / "digits"
PLAY = [
    {
        "name": "Plan",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Decide",
                "modak.deploy.optimise": {
                    "application": "{{ application }}",
                    "target": "{{ target | default(omit) }}",
                    "request": "{{ request | default(omit) }}",
                    "job": "{{ job | default(omit) }}",
                },
                "register": "decision",
            },
            {
                "name": "Keep it as it came",
                "ansible.builtin.copy": {
                    "content": "{{ decision.plan | to_nice_json }}",
                    "dest": "{{ playbook_dir }}/plan.json",
                    "mode": "0600",
                },
            },
        ],
    }
]
DOCUMENTS: dict[str, dict[str, Any]] = {
    "digits": yaml.safe_load((DIGITS / "deploy.yml").read_text()),
    "everything": {
        "application": {
            "name": "echo",
            "type": "hpc",
            "executable": "/bin/echo",
            "arguments": ["{{ not a template }}", "ü 'q' \"d\" $HOME", "1:30"],
            "inputs": ["train.py"],
            "environment": {"DEBUG": "yes", "EMPTY": ""},
        },
        "target": {"name": "here", "node": {"cores": 4, "memory": "2G"}, "polling": {"first": 0.5}},
        "request": {"numerics": "relaxed", "forbid_levers": ["malloc-hugepages"]},
        "job": {"wall_time": 5400, "ranks": 2, "cores_per_rank": 2, "join_output": False},
    },
}


def undated(plan: str) -> dict[str, Any]:
    data = json.loads(plan)
    assert data.pop("created").endswith("Z")
    return data


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_one_plan(name: str, tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copy(DIGITS / "train.py", tmp_path)
    text = yaml.safe_dump(DOCUMENTS[name], sort_keys=False)
    (tmp_path / "deploy.yml").write_text(text.replace("'{{ not a template }}'", "!unsafe '{{ not a template }}'"))
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAY, sort_keys=False))
    run(["ansible-playbook", "play.yml", "-e", "@deploy.yml"], tmp_path, environment)
    (tmp_path / "deploy.yml").write_text(text)
    by_command = run([sys.executable, "-m", "modak_deploy.cli", "plan", "deploy.yml", "--json"], tmp_path, environment)
    assert undated((tmp_path / "plan.json").read_text()) == undated(by_command)


def test_two_plans_of_one_description_are_one(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(DIGITS, tmp_path / "digits")
    command = [sys.executable, "-m", "modak_deploy.cli", "plan", "digits/deploy.yml", "--json"]
    dated = {**environment, "SOURCE_DATE_EPOCH": "1767225600"}
    assert run(command, tmp_path, dated) == run(command, tmp_path, dated)


ASKED = """\
- name: Plan for two targets with what they answered
  hosts: localhost
  connection: local
  gather_facts: false
  vars:
    application: {name: two, type: hpc, executable: sh, arguments: ["-c", "true"]}
    small: {name: small, node: {cores: 1}}
    large: {name: large, node: {cores: 8}}
  tasks:
    - modak.deploy.optimise: {application: "{{ application }}", target: "{{ small }}", ask: true}
      register: asked
    - modak.deploy.optimise: &decide
        application: "{{ application }}"
        target: "{{ small }}"
        other_targets: ["{{ large }}"]
        job: {cores_per_rank: 2}
        answers: ["{{ asked.answer }}", "{{ asked.answer }}"]
        results: results
      register: decision
    - modak.deploy.optimise: *decide
      register: again
    - modak.deploy.optimise: {plan: "{{ decision.plan }}", target: "{{ decision.plan.target }}", results: results}
      register: completed
    - modak.deploy.optimise: {application: "{{ application }}", target: "{{ small }}", other_targets: ["{{ large }}"]}
      register: unasked
      failed_when: unasked.msg is not search("'other_targets' needs 'answers'")
    - modak.deploy.optimise: {application: "{{ application }}", target: "{{ small }}", answers: []}
      register: fewer
      failed_when: fewer.msg is not search("'answers' has 0 items for 1 targets")
    - modak.deploy.optimise: {application: "{{ application }}", target: "{{ small }}", answers: ["%"]}
      register: odd
      failed_when: odd.msg is not search("not Base64")
    - ansible.builtin.assert:
        that:
          - not asked.changed
          - decision.changed
          - decision.plan.target.name == 'large'
          - decision.plan.other_targets | map(attribute='target.name') == ['small']
          - not again.changed
          - again.plan == decision.plan
          - not completed.changed
          - completed.plan == decision.plan
"""


def test_answers_collected_before_make_the_plan_of_the_best_target(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "play.yml").write_text(ASKED)
    run(["ansible-playbook", "play.yml"], tmp_path, environment)


TINY_DOCUMENT: dict[str, Any] = {
    "application": {
        "name": "tiny",
        "type": "hpc",
        "script": "tiny.py",
        "arguments": ["--numbers", "77"],
        "metrics": "metrics.json",
    },
    "target": {"name": "machine", "polling": {"first": 0.5, "maximum": 2.0}},
    "job": {"wall_time": "5 m"},
}


@pytest.mark.parametrize(
    "order",
    [("play", "opera", "command"), pytest.param(("command", "play", "opera"), marks=pytest.mark.long)],
    ids="-".join,
)
def test_one_job_by_every_way_in(order: tuple[str, ...], tmp_path: Path, environment: dict[str, str]) -> None:
    """Whoever comes first submits the job; the others find it, by the same Plan, and fetch the same results."""
    workspace = {"workspace": str(tmp_path / "workspace")}
    opera = Orchestrator.on_tiny(tmp_path, environment, "Machine")
    opera.inputs(name="tiny", arguments=["--numbers", "77"], **workspace)
    ways = WaysIn(opera, {**TINY_DOCUMENT, "target": {**TINY_DOCUMENT["target"], **workspace}})
    first, second, third = (ways.deploy(way) for way in order)
    assert first == second == third
    assert len(folders(tmp_path / "workspace")) == 1


def test_one_job_on_slurm_by_every_way_in(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    name = f"tiny-{secrets.token_hex(4)}"
    opera = Orchestrator.on_tiny(tmp_path, environment, "SlurmCluster")
    opera.inputs(name=name, arguments=["--numbers", "77"], **connection(real_slurm))
    target = {**TINY_DOCUMENT["target"], "name": "slurm", "type": "slurm", **connection(real_slurm)}
    application = {**TINY_DOCUMENT["application"], "name": name}
    ways = WaysIn(opera, {**TINY_DOCUMENT, "application": application, "target": target})
    first, second, third = (ways.deploy(way) for way in ("command", "opera", "play"))
    assert first == second == third
    assert [state for its_name, state in real_slurm.all_jobs().values() if its_name == name] == ["COMPLETED"]


class WaysIn:
    """One application as a document and as a blueprint, in one folder."""

    def __init__(self, opera: Orchestrator, document: dict[str, Any]) -> None:
        self.opera, self.folder = opera, opera.folder
        shutil.copy(TINY, self.folder)
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(document))

    def deploy(self, way: str) -> dict[str, Any]:
        """Return what one way in makes: Plan, job, and all files that it fetches."""
        folder = self.opera.results if way == "opera" else self.folder / way
        commands = {
            "play": [
                "ansible-playbook",
                "modak.deploy.deploy",
                "-e",
                "deployment=deploy.yml",
                "-e",
                f"results={folder}",
            ],
            "command": [sys.executable, "-m", "modak_deploy", "deploy", "deploy.yml", "-r", str(folder)],
        }
        if way == "opera":
            ended = self.opera.deploy()
            assert ended.code == 0, ended.text
        else:
            run(commands[way], self.folder, self.opera.environment)
        (found,) = folder.rglob("plan.json")
        files = {path.name: path.read_bytes() for path in found.parent.iterdir()}
        job = json.loads(files["job.json"])
        return {
            "plan": undated(files["plan.json"].decode()),
            "job": (job["id"], job["tag"], job["state"], job["started"], job["ended"]),
            "metrics": files["metrics.json"],
            "output": files["output.log"],
            "files": sorted(files),
        }
