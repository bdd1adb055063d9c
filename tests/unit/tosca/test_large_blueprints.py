"""Blueprints of a thousand nodes are checked like small ones."""

from pathlib import Path

import pytest

from modak_deploy.tosca.validate import validate

COUNT = 1_500
"""More than Python's limit of nested calls."""
HEAD = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
"""


def chain(path: Path, targets: list[int | None]) -> Path:
    """Write a blueprint with a node for each target, which is the number of the node that it waits for."""
    lines = []
    for number, target in enumerate(targets):
        lines.append(f"    node-{number}:\n      type: tosca.nodes.Root\n")
        if target is not None:
            lines.append(f"      requirements:\n        - dependency: node-{target}\n")
    path.write_text(HEAD + "".join(lines))
    return path


@pytest.mark.parametrize("step", [-1, 1], ids=["before", "after"])
def test_chain_of_nodes_is_valid_whichever_comes_first(tmp_path: Path, step: int) -> None:
    targets = [number + step if 0 <= number + step < COUNT else None for number in range(COUNT)]
    assert validate(chain(tmp_path / "b.yaml", targets)) == []


def test_a_ring_at_the_end_of_a_long_chain_is_reported_once(tmp_path: Path) -> None:
    targets: list[int | None] = [*range(1, COUNT), COUNT - 3]
    (problem,) = validate(chain(tmp_path / "b.yaml", targets))
    ring = " -> ".join(f"node-{number}" for number in (COUNT - 3, COUNT - 2, COUNT - 1, COUNT - 3))
    assert f"the node templates wait for each other: {ring}" in str(problem)
    assert problem.line == 4 + 4 * COUNT - 1
