"""Inputs without a value: what they stand for is taken to be right, and a target that depends on them is refused."""

from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.inventory import load_targets
from modak_deploy.tosca.validate import validate

BASE = (Path(__file__).parents[2] / "data" / "blueprints" / "base.yaml").read_text()
INPUTS = """\
    amount: {type: integer}
    program: {type: string}
    wanted: {type: string}
    most: {type: float}
"""
POLICIES = """\
  policies:
    - house:
        type: modak.policies.Optimisation
        targets: [train]
        properties: {objective: cost, budget: 9.0}
    - wide:
        type: modak.policies.Scaling
        targets: [train]
        properties: {minimum_nodes: 2}
"""


def written(project: Path, *edits: tuple[str, str]) -> Path:
    text = BASE.replace("  inputs:\n", f"  inputs:\n{INPUTS}", 1)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (project / "b.yaml").write_text(text)
    return project / "b.yaml"


REQUEST = ("numerics: relaxed", "objective: { get_input: wanted }\n          budget: { get_input: most }")
NODES = ("nodes: 2", "nodes: { get_input: amount }")
RULES = ("  policies:\n", POLICIES)


def test_a_rule_waits_for_the_values_of_inputs(project: Path) -> None:
    path = written(project, REQUEST, NODES, RULES)
    assert validate(path) == []
    given = {"wanted": "time", "most": 12.0, "amount": 1, "program": "x"}
    assert [fault.message.partition(" and ")[2] for fault in validate(path, given)] == [
        "the policy 'house' requires cost",
        "the policy 'house' permits 9 at most",
        "",  # 'but' stands before the last
    ]


def test_a_rule_waits_for_a_whole_section(project: Path) -> None:
    section = ("        request:\n          numerics: relaxed\n", "        request: { get_input: asked }\n")
    path = written(project, section, RULES, ("    amount:", "    asked: {type: modak.datatypes.Request}\n    amount:"))
    assert validate(path) == []


@pytest.mark.parametrize(
    "edit",
    [
        ("script: { get_artifact: [SELF, script] }", "executable: { get_input: program }"),
        ("nodes: 2", "nodes: { get_input: amount }\n          ranks: 256"),
    ],
)
def test_nothing_is_missed_that_an_input_will_give(project: Path, edit: tuple[str, str]) -> None:
    assert validate(written(project, edit)) == []


def test_a_target_without_its_inputs_is_not_this_machine(project: Path) -> None:
    path = written(project, ("hostname: { get_input: host }", "hostname: { concat: [{ get_input: program }, .org] }"))
    with pytest.raises(InputError) as caught:
        load_targets(path)
    assert str(caught.value).startswith(f"{path}:")
    assert "node_templates.cluster.properties.hostname: it has no value yet; give its input one" in str(caught.value)
    (target,) = load_targets(path, {"program": "login"})
    assert target.host == "login.org"
