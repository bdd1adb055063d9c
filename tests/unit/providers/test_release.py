"""What is deleted where the creation of an instance was cut off: the role waits for one that is not listed yet."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.model.plan import Plan
from modak_deploy.providers import record
from modak_deploy.providers.aws import Aws
from modak_deploy.providers.record import read_public_key
from modak_deploy.providers.resources import Resources

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def plan(cloud_plan: Callable[..., Plan]) -> Plan:
    return cloud_plan()


@pytest.fixture
def resources(plan: Plan) -> Resources:
    return Aws().describe(plan, read_public_key(plan.target))


def row(resources: Resources, name: str = "i-1", state: str = "pending") -> dict[str, Any]:
    """Return an instance of the deployment as AWS lists it."""
    times = {"launch_time": "2026-01-01T00:00:00+00:00", "state": {"name": state}}
    return {"instance_id": name, "instance_type": "m7i.large", "tags": dict(resources.tags), **times}


def released(
    folder: Path, plan: Plan, resources: Resources, *, late: bool, settle: float = 60, before: Sequence[str] = ()
) -> tuple[int, list[str]]:
    """Return how often the provider was asked, and what is to be deleted; a ``late`` instance is in the second list.

    Those in states ``before`` are in both.
    """
    others = [row(resources, f"i-0{number}", state) for number, state in enumerate(before)]
    there = {"instances": [*others, *([row(resources)] if late else [])], "security_groups": []}
    look = "{{ cloud_listings | default(0) | int + 1 }}"
    rows = "{{ cloud_later if cloud_listings | int > 1 else cloud_first }}"
    shown = {"cloud_later": there["instances"], "cloud_first": others}
    listing = [
        {"ansible.builtin.set_fact": {"cloud_listings": look, **shown}},
        {"ansible.builtin.set_fact": {"cloud_listed": {**there, "instances": rows}}},
    ]
    file = folder / "provider" / "tasks" / "aws_list.yml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(listing))
    described = {"role": str(folder / "provider"), "resources": resources.model_dump(mode="json")}
    facts = {"cloud_plan": plan.model_dump(mode="json", by_alias=True), "cloud_described": described}
    content = "{{ [cloud_listings | int, cloud_release.instances] | to_json }}"
    tasks = [
        {"ansible.builtin.set_fact": {**facts, "cloud_settle": settle}},
        {"ansible.builtin.include_tasks": str(TOP / "roles" / "cloud" / "tasks" / "releasable.yml")},
        {"ansible.builtin.copy": {"content": content, "dest": str(folder / "done")}},
    ]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(json.dumps([play]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections")}
    environment |= {"ANSIBLE_HOME": str(folder / "ansible")}
    command = ["ansible-playbook", "play.yml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    listings, instances = json.loads((folder / "done").read_text())
    return listings, instances


def test_an_instance_that_was_just_created_is_waited_for(tmp_path: Path, plan: Plan, resources: Resources) -> None:
    record.begin(resources, run="probe", target="aws")
    assert released(tmp_path, plan, resources, late=True) == (2, ["i-1"])


def test_one_that_ended_before_is_not_the_one_that_is_waited_for(
    tmp_path: Path, plan: Plan, resources: Resources
) -> None:
    """EC2 lists an instance for about an hour after its end."""
    record.begin(resources, run="probe", target="aws")
    assert released(tmp_path, plan, resources, late=True, before=["terminated", "shutting-down"]) == (2, ["i-1"])


def test_the_wait_ends(tmp_path: Path, plan: Plan, resources: Resources) -> None:
    record.begin(resources, run="probe", target="aws")
    listings, instances = released(tmp_path, plan, resources, late=False, settle=4)
    assert listings > 1 and instances == []


def test_where_none_was_begun_or_none_could_be_had_nothing_is_waited_for(
    tmp_path: Path, plan: Plan, resources: Resources
) -> None:
    (tmp_path / "none").mkdir()
    assert released(tmp_path / "none", plan, resources, late=True) == (1, [])
    record.begin(resources, run="probe", target="aws")
    record.refuse(resources.identity)
    (tmp_path / "refused").mkdir()
    assert released(tmp_path / "refused", plan, resources, late=True) == (1, [])
