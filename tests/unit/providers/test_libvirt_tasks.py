"""The role's tasks for libvirt, as they are written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.providers.cloudinit import user_data

ROLE = Path(__file__).parents[3] / "roles" / "cloud"
HOST_KEY = "ssh-ed25519 " + "A" * 68


def flat_tasks(name: str) -> list[dict[str, Any]]:
    """Return a file's tasks, those of its blocks included."""
    tasks = yaml.safe_load((ROLE / "tasks" / f"libvirt_{name}.yml").read_text())
    return [inner for task in tasks for inner in (task, *task.get("block", []), *task.get("rescue", []))]


@pytest.mark.parametrize("name", ["list", "release"])
def test_the_tasks_that_list_and_delete_need_no_instance_of_a_plan(name: str) -> None:
    assert "cloud_resources.instance" not in str(flat_tasks(name))


@pytest.mark.parametrize("name", ["list", "create", "release"])
def test_the_tasks_ask_the_host_of_the_document_alone(name: str) -> None:
    for task in flat_tasks(name):
        for module, arguments in task.items():
            if module.startswith("community.libvirt."):
                assert "uri" in arguments
                assert arguments.get("force") is None


def test_the_domain_is_defined_before_any_volume_is_made_and_its_user_data_are_not_logged() -> None:
    modules = [next(key for key in task if "." in key or key == "block") for task in flat_tasks("create")]
    assert modules.index("community.libvirt.virt") < modules.index("community.libvirt.virt_volume")
    (seed,) = (
        task for task in flat_tasks("create") if "cloud_user_data" in str(task.get("community.libvirt.virt_volume"))
    )
    assert seed["no_log"] is True


def test_the_collection_takes_the_user_data_as_a_map() -> None:
    """It writes the first line of cloud-init's format itself."""
    text = user_data(public_key="ssh-ed25519 A", host_key="-----BEGIN\nx\n", host_public_key=HOST_KEY, lease=60)
    content = yaml.safe_load(text)
    again = "#cloud-config\n" + yaml.safe_dump(content, width=4096)
    assert yaml.safe_load(again) == content
    assert content["ssh_keys"]["ed25519_private"] == "-----BEGIN\nx\n"
