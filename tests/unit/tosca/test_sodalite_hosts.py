"""Hosts of SODALITE's workflow types, and clients of its transfers: what does, and what is an error at its line."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.tosca import library
from modak_deploy.tosca.notices import notices
from modak_deploy.tosca.service import load
from modak_deploy.tosca.sodalite import sections
from modak_deploy.tosca.validate import validate

KINDS = Path(__file__).parents[2] / "data" / "blueprints" / "sodalite"


def faults(project: Path, kind: str, old: str = "", new: str = "") -> list[str]:
    text = (KINDS / f"{kind}.yaml").read_text().replace("SCHEDULER", "slurm")
    assert old in text
    (project / "b.yaml").write_text(text.replace(old, new))
    return [str(fault).removeprefix(f"{project}/b.yaml:") for fault in validate(project / "b.yaml")]


@pytest.mark.parametrize("kind", sorted(path.stem for path in KINDS.glob("*.yaml")))
def test_each_kind_is_valid(project: Path, kind: str) -> None:
    assert faults(project, kind) == []


def test_a_host_that_says_not_how_to_log_in(project: Path) -> None:
    own = "sodalite.nodes.remote\n      attributes:\n        public_address: { get_input: frontend-address }\n"
    rest = (
        "        username: { get_input: user }\n        ssh-key: { get_input: key-location }\n      properties:\n"
        "        port: { get_input: port }\n        known_hosts: { get_input: known_hosts }\n"
    )
    (fault,) = faults(project, "workflow", own + rest, "tosca.nodes.Compute\n")
    line, _, text = fault.partition(": ")
    assert (project / "b.yaml").read_text().splitlines()[int(line) - 1] == "        - host: machine"
    assert "'machine' is of type tosca.nodes.Compute, which does not say how to log in" in text
    assert "write type: sodalite.nodes.remote" in text


def test_a_transfer_beside_a_client_has_a_host(project: Path) -> None:
    own = "        - host: manager\n        - client: client\n"
    (fault,) = faults(project, "transfer", own, "        - client: client\n")
    assert "the requirement 'host' is required beside the client 'client'; write - host: manager" in fault


def test_a_client_is_a_machine_or_a_client(project: Path) -> None:
    (fault,) = faults(project, "transfer", "- client: later-client", "- client: first")
    assert "'first' is of type sodalite.data.mover.gridftp, which does not say how to log in" in fault


def test_what_a_client_has_and_is_not_used(project: Path) -> None:
    faults(project, "transfer")
    found = [notice.path[-1] for notice in notices(load(project / "b.yaml"))]
    assert found == ["cert_path", "hostnames", "usercert"]


@pytest.mark.parametrize(
    ("framework", "said"),
    [("pytorch", []), ("tensorflow", []), ("mxnet", ["nothing is tried: levers are tried while"])],
)
def test_autotuning_of_what_cannot_be_tuned(project: Path, framework: str, said: list[str]) -> None:
    faults(project, "autotuned", "ai_framework: pytorch", f"ai_framework: {framework}")
    found = [notice for notice in notices(load(project / "b.yaml")) if notice.path[-1] == "enable_autotuning"]
    assert [notice.message.partition(" programs")[0] for notice in found] == said
    faults(project, "workflow", "app_tag: second\n", "app_tag: second\n        enable_autotuning: true\n")
    assert [notice.path[-1] for notice in notices(load(project / "b.yaml"))][-1] == "enable_autotuning"


def given(manager: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return sections({"tosca_name": "job", "executable": "python3 a.py", **properties}, manager)


def test_user_and_key_are_properties_or_attributes() -> None:
    manager = {"scheduler": "slurm", "public_address": "login", "username": "", "ssh-key": ""}
    target = given({**manager, "attribute-username": "ann", "attribute-ssh-key": "/k"})["target"]
    assert (target["user"], target["private_key"]) == ("ann", "/k")
    target = given({**manager, "username": "bob", "attribute-username": ""})["target"]
    assert target["user"] == "bob"


TRAINING = {
    "app_type": "ai_training",
    "app_type-ai_training": {"config": {"ai_framework": "pytorch", "config_type": "translation"}, "data": None},
}
MANAGER = {"scheduler": "slurm", "public_address": "login"}


def test_the_section_of_the_job_model_counts() -> None:
    made = given(MANAGER, optimisation={**TRAINING, "enable_autotuning": True})
    assert (made["application"]["type"], made["application"]["framework"]) == ("ai_training", {"name": "pytorch"})
    assert (made["request"]["trials"], made["request"]["runtimes"][0]) == ("live", "native")
    assert given(MANAGER, optimisation=TRAINING)["request"]["trials"] == "none"
    assert given(MANAGER, optimisation=TRAINING, enable_autotuning=True)["request"]["trials"] == "live"
    image = given(MANAGER, optimisation=TRAINING, container_runtime="docker://a/b:1")
    assert "native" not in image["request"]["runtimes"]


def test_every_kind_is_in_the_documentation() -> None:
    page = (library.folder().parents[2] / "docs" / "sodalite.md").read_text()
    for file in ("sodalite", "sodalite-older", "sodalite-tasks"):
        types = yaml.safe_load((library.folder() / "types" / f"{file}.yaml").read_text())["node_types"]
        missing = [name for name in types if name.startswith("sodalite.") and f"`{name}`" not in page]
        assert missing == []
