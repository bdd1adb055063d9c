"""The zones of an instance: the role tries one after the other, and then the next instance type."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.model.plan import Plan
from modak_deploy.providers.aws import Aws
from modak_deploy.providers.record import read_public_key

TOP = Path(__file__).resolve().parents[3]
NONE_LEFT = "An error occurred (InsufficientInstanceCapacity) when calling RunInstances"
LIST = [{"ansible.builtin.set_fact": {"cloud_listed": {"instances": [], "security_groups": []}}}]
CREATE = [
    {"ansible.builtin.debug": {"msg": "zones {{ cloud_resources.instance.zones }}"}},
    {
        "ansible.builtin.fail": {
            "msg": "{{ 'it is another fault' if cloud_resources.instance.zones[0] == 'c' else cloud_lack }}"
        },
    },
]


def run(folder: Path, plan: Plan) -> str:
    """Run the role's tasks with a provider that has no capacity but in the zone ``c``, where another fault ends it."""
    for name, tasks in (("list", LIST), ("create", CREATE)):
        file = folder / "provider" / "tasks" / f"aws_{name}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(tasks))
    resources = Aws().describe(plan, read_public_key(plan.target)).model_dump(mode="json")
    described = {"role": str(folder / "provider"), "resources": resources, "identity": resources["identity"]}
    start = {"cloud_current": plan.model_dump(mode="json", by_alias=True), "cloud_described": described}
    # Whoever waits at all gives up.
    facts = {**start, "cloud_zone": 0, "cloud_unavailable": {}, "cloud_until": 0, "cloud_timeout": 0}
    tasks = [
        {"ansible.builtin.set_fact": {**facts, "cloud_settle": 60, "cloud_lack": NONE_LEFT}},
        {"ansible.builtin.include_tasks": str(TOP / "roles" / "cloud" / "tasks" / "instance.yml")},
    ]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(json.dumps([play]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections")}
    environment |= {"ANSIBLE_HOME": str(folder / "ansible"), "XDG_STATE_HOME": str(folder / "state")}
    command = ["ansible-playbook", "play.yml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_each_zone_is_tried_in_its_order(cloud_plan: Callable[..., Plan], tmp_path: Path) -> None:
    text = run(tmp_path, cloud_plan({"zones": ["a", "b", "c"], "instance_types": ["m7i.large"]}))
    tried = [line.partition("zones ")[2].strip('"') for line in text.splitlines() if '"msg": "zones ' in line]
    assert tried == ["['a', 'b', 'c']", "['b', 'c']", "['c']"], text
    assert f"m7i.large in a: {NONE_LEFT}" in text
    assert "the instance cannot be created: it is another fault" in text


def test_without_capacity_in_any_zone_the_last_type_is_an_error(
    cloud_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    text = run(tmp_path, cloud_plan({"zones": ["a", "b"], "instance_types": ["m7i.large"]}))
    assert f"m7i.large in b: {NONE_LEFT}" in text
    assert "no instance type that can do what was asked can be had now; the last was m7i.large" in text


def test_a_subnet_lies_in_one_zone(cloud_plan: Callable[..., Plan]) -> None:
    """amazon.aws refuses both together, and says so only when the security group is there."""
    plan = cloud_plan({"zones": ["a", "b"], "subnet": "subnet-1"})
    with pytest.raises(InputError, match=r"target\.cloud\.zones: a subnet lies in one zone"):
        Aws().describe(plan, read_public_key(plan.target))
