"""Targets as documents describe them, as they are written from what was found, and the two side by side."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.discovery import describe, differences, target_of
from modak_deploy.documents import check, load_deployment
from modak_deploy.errors import InputError
from modak_deploy.inventory import load_targets
from modak_deploy.model.target import Facts, Target

TOP = Path(__file__).parents[3]
CASES = yaml.safe_load((TOP / "tests" / "data" / "discovery" / "differences.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_differences(case: dict[str, Any]) -> None:
    target = check(Target, case["target"], origin="target")
    assert differences(target, check(Facts, case["facts"], origin="facts")) == case["differences"]


def written(facts: dict[str, Any], **address: Any) -> Target:
    return target_of(check(Facts, facts, origin="facts"), Target(name="x", **address))


GPUS = [{"name": "gpu", "default": True, "node": {"accelerators": [{"model": "a100", "count": 4}]}}]


def test_what_was_found_is_a_description_of_it(tmp_path: Path) -> None:
    facts = {"hostname": "login1", "scheduler": "slurm", "partitions": GPUS, "node": {"cores": 3}}
    target = written(facts, host="cluster", user="me", port=2222)
    assert (target.name, target.type, target.node) == ("cluster", "slurm", None)
    path = tmp_path / "whole.yml"
    path.write_text(describe(target) + "application: {name: a, executable: /bin/true}\n")
    assert load_deployment(path).target == target
    assert differences(target, check(Facts, facts, origin="facts")) == []


@pytest.mark.parametrize(
    ("scheduler", "partitions", "spelling"),
    [
        ("slurm", GPUS, "gres=gpu:a100:{count}"),
        ("slurm", [{"name": "g", "node": {"accelerators": [{"model": "gpu", "count": 2}]}}], None),
        ("slurm", [*GPUS, {"name": "h", "node": {"accelerators": [{"model": "h100"}]}}], None),
        ("slurm", [], None),
        ("torque", GPUS, None),
    ],
)
def test_how_gpus_are_asked_for(scheduler: str, partitions: list[Any], spelling: str | None) -> None:
    assert written({"scheduler": scheduler, "partitions": partitions}).gpu_spelling == spelling


@pytest.mark.parametrize(
    ("host", "name"),
    [(None, "login1"), ("a.example.org", "a.example.org"), ("10.0.0.1", "target-10.0.0.1"), ("::1", "target---1")],
)
def test_name_of_a_target(host: str | None, name: str) -> None:
    assert written({"hostname": "login1"}, host=host).name == name


def test_targets_of_documents_and_blueprints(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yml"
    path.write_text("target: {name: c, type: slurm, host: h}\nanything: {else: 1}\n")
    assert [target.host for target in load_targets(path)] == ["h"]
    blueprints = TOP / "tosca" / "blueprints"
    (slurm,) = load_targets(blueprints / "digits-slurm.yaml", {"host": "login.example.org"})
    assert (slurm.type, slurm.host) == ("slurm", "login.example.org")
    (machine,) = load_targets(blueprints / "digits-machine.yaml")
    assert (machine.type, machine.host) == ("machine", None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("application: {}\n", "{}: the document has no section 'target'"),
        ("- target\n", "{}: the document must be a mapping with the key 'target'"),
        ("target:\n  name: c\n  hots: h\n", "{}:3: target: unknown key 'hots'; did you mean 'host'?"),
        ("tosca_definitions_version: tosca_simple_yaml_1_3\n", "{}: the blueprint has no job on a target"),
        (
            "tosca_definitions_version: tosca_simple_yaml_1_3\n"
            "topology_template: {node_templates: {a: {type: x, properties: y}}}\n",
            "{}:2: node_templates.a.properties: must be a mapping, not 'y'",
        ),
    ],
)
def test_files_without_a_target(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_targets(path)
    assert str(caught.value) == fault.format(path)
