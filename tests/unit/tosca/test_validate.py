"""Blueprints with one fault each, as a table: every fault is told once, at its line."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples import examples
from modak_deploy.diagnostics import Diagnostic
from modak_deploy.errors import InputError
from modak_deploy.tosca import library
from modak_deploy.tosca.profiles import Profile
from modak_deploy.tosca.validate import examine, read_inputs, validate
from tosca_tools import case_files

DATA = Path(__file__).parents[2] / "data" / "blueprints"
BASE = (DATA / "base.yaml").read_text()
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "faulty.yaml").read_text())
CONSTRUCTS: list[dict[str, Any]] = yaml.safe_load((DATA / "constructs.yaml").read_text())
UNUSUAL: list[dict[str, Any]] = yaml.safe_load((DATA / "unusual.yaml").read_text())
TEMPLATES: list[dict[str, Any]] = yaml.safe_load((DATA / "unusual-templates.yaml").read_text())
MARK = "# here"


def diagnostics(path: Path, **inputs: Any) -> list[Diagnostic]:
    """Return the problems of a blueprint."""
    try:
        return validate(path, inputs or None, "all")
    except InputError as error:
        return list(error.diagnostics)


def told(path: Path, **inputs: Any) -> list[str]:
    """Return the problems of a blueprint as text."""
    return [str(diagnostic) for diagnostic in diagnostics(path, **inputs)]


def edited(case: dict[str, Any]) -> str:
    """Return the base blueprint with the edits of a case."""
    text = BASE
    for edit in case["edits"]:
        assert edit["replace"] in text
        text = text.replace(edit["replace"], edit["by"], 1)
    return text


@pytest.mark.parametrize("case", UNUSUAL, ids=[case["name"] for case in UNUSUAL])
def test_what_is_unusual_is_no_fault(project: Path, case: dict[str, Any]) -> None:
    (project / "b.yaml").write_text(edited(case))
    assert told(project / "b.yaml") == []


@pytest.mark.parametrize("case", TEMPLATES, ids=[case["name"] for case in TEMPLATES])
def test_a_template_that_the_standard_allows(tmp_path: Path, case: dict[str, Any]) -> None:
    """Of these only what xOpera does not take is an error for it, and says so."""
    problems = refused(case_files(case, tmp_path))
    assert bool(problems) == bool(case.get("rejected_by") or case.get("strict")), problems


def refused(path: Path) -> list[str]:
    """Return the problems of a template for xOpera."""
    try:
        return [str(diagnostic) for diagnostic in validate(path, None, "opera")]
    except InputError as error:
        return [str(diagnostic) for diagnostic in error.diagnostics]


TOOLS: tuple[Profile, ...] = ("tosca-parser", "opera", "unfurl", "puccini")


@pytest.mark.parametrize("case", CONSTRUCTS, ids=[case["name"] for case in CONSTRUCTS])
def test_a_construct_is_an_error_only_for_the_tools_that_reject_it(project: Path, case: dict[str, Any]) -> None:
    (project / "b.yaml").write_text(edited(case))
    rejecting = [tool for tool in TOOLS if validate(project / "b.yaml", profile=tool)]
    assert sorted(rejecting) == sorted([*case["rejected_by"], *case.get("strict", [])])
    findings = examine(project / "b.yaml")
    assert not set(findings.errors) & set(findings.notes)
    assert all(note.rejected_by for note in findings.notes)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16"])
def test_other_encodings(project: Path, encoding: str) -> None:
    (project / "b.yaml").write_bytes(BASE.replace("State of the job", "Zustand läuft").encode(encoding))
    faults = told(project / "b.yaml")
    assert all("this is not UTF-8 text" in fault for fault in faults)
    assert bool(faults) == (encoding != "utf-8-sig")


def test_the_base_has_no_fault(project: Path) -> None:
    (project / "base.yaml").write_text(BASE)
    assert told(project / "base.yaml") == []


@pytest.mark.parametrize("path", sorted(library.folder().parent.glob("*.yaml")), ids=lambda p: p.name)
def test_the_blueprints_have_no_fault(path: Path) -> None:
    # SODALITE's older `env` and the job model's sections are maps without entry_schema: they hold texts and others.
    names = ("env", "job_options", "application", "target", "optimisation")
    older = tuple(f"{name}: the key 'entry_schema' is required by Puccini" for name in names)
    assert [line for line in told(path) if not line.endswith(older)] == []


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_fault_is_told_once_at_its_line(project: Path, case: dict[str, Any]) -> None:
    text = edited(case)
    (line,) = (number for number, content in enumerate(text.splitlines(), 1) if MARK in content)
    blueprint = project / "blueprint.yaml"
    blueprint.write_text(text)
    (diagnostic,) = diagnostics(blueprint)
    assert str(diagnostic) == f"{blueprint}:{line}: {case['says']}".replace("DIR", str(project))
    assert (diagnostic.source, diagnostic.line, diagnostic.code) == (str(blueprint), line, case["code"])


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("join: [[a, b], 3]", "join: must be a list of texts and a delimiter"),
        (
            'token: ["a.b", "", 0]',
            "token: must be a list of a text, the characters that part it, and a number",
        ),
    ],
)
def test_a_function_whose_delimiter_is_no_text_or_empty(project: Path, function: str, fault: str) -> None:
    text = BASE.replace("        metrics: metrics.json", f"        metrics: {{ {function} }}", 1)
    (project / "b.yaml").write_text(text)
    assert [line.partition(": ")[2] for line in refused(project / "b.yaml")] == [
        f"node_templates.train.properties.metrics.{fault}"
    ]


CONSTRAINED = """\
tosca_definitions_version: tosca_simple_yaml_1_3
data_types:
  example.D: {derived_from: tosca.datatypes.Root, properties: {a: {type: string}}}
node_types:
  example.N:
    derived_from: tosca.nodes.Root
    properties: {p: {type: TYPE, constraints: [CLAUSE]}}
topology_template:
  node_templates:
    n: {type: example.N, properties: {p: VALUE}}
"""


@pytest.mark.parametrize(
    ("kind", "clause", "value", "says"),
    [
        ("integer", "valid_values: [1, 2]", "5", "must be one of 1, 2, not 5"),
        ("example.D", "valid_values: [{a: x}]", "{a: y}", "must be one of {'a': 'x'}, not 1"),
        ("example.D", "in_range: [{a: x}, {a: y}]", "{a: y}", "in_range wants a list of the lowest and the highest"),
        ("example.D", "greater_than: 1", "{a: y}", ""),
        ("example.D", "in_range: [1, 2]", "{a: y}", ""),
        ("example.D", "pattern: x", "{a: y}", ""),
    ],
)
def test_constraints_of_values_that_are_no_text(project: Path, kind: str, clause: str, value: str, says: str) -> None:
    text = CONSTRAINED.replace("TYPE", kind).replace("CLAUSE", "{" + clause + "}").replace("VALUE", value)
    (project / "b.yaml").write_text(text)
    faults = refused(project / "b.yaml")
    assert bool(faults) == bool(says)
    assert all(says in fault for fault in faults)


RULES = """\
  groups:
    all: {type: tosca.groups.Root, members: [train]}
  policies:
    - thrifty: {type: modak.policies.Optimisation, targets: [all], properties: {objective: cost, budget: 9.0}}
    - narrow: {type: modak.policies.Scaling, targets: [train], properties: {minimum_nodes: 2, maximum_nodes: 2}}
"""


def test_jobs_that_keep_the_rules_have_no_fault(project: Path) -> None:
    text = BASE.replace("  policies:\n", RULES, 1)
    kept = text.replace("numerics: relaxed", "objective: cost\n          budget: 9.0")
    (project / "kept.yaml").write_text(kept)
    assert told(project / "kept.yaml") == []
    (project / "broken.yaml").write_text(text)
    assert [fault.partition("and ")[2] for fault in told(project / "broken.yaml")] == [
        "the policy 'thrifty' requires cost",
        "the policy 'thrifty' permits 9 at most",
    ], "the rule of a group is one for its members"


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(project: Path) -> None:
    text = (
        BASE.replace("port: 22", "port: ssh")
        .replace("- host: cluster", "- host: clutser")
        .replace("hour: 3", "hours: 3")
    )
    (project / "b.yaml").write_text(text)
    lines = [int(fault.split(":")[1]) for fault in told(project / "b.yaml")]
    assert len(lines) == 4
    assert lines == sorted(lines)


def line_of(text: str) -> int:
    return next(number for number, content in enumerate(BASE.splitlines(), 1) if content.strip() == text)


@pytest.mark.parametrize(
    ("inputs", "at", "says"),
    [
        ({"epochs": "many"}, "epochs:", "inputs.epochs: must be a whole number, not 'many'"),
        ({"epochs": 0}, "epochs:", "inputs.epochs: must be above 0, not 0"),
        (
            {"hots": "x"},
            "inputs:",
            "inputs: input 'hots' not found, which a value is given for; did you mean 'host'?",
        ),
    ],
)
def test_inputs_are_checked(project: Path, inputs: dict[str, Any], at: str, says: str) -> None:
    (project / "b.yaml").write_text(BASE)
    assert told(project / "b.yaml", **inputs) == [f"{project / 'b.yaml'}:{line_of(at)}: {says}"]


def test_an_input_without_value_and_default(project: Path) -> None:
    (project / "b.yaml").write_text(BASE.replace("      default: login\n", ""))
    assert told(project / "b.yaml") == []
    (fault,) = told(project / "b.yaml", epochs=1)
    assert fault.endswith(": inputs.host: the input has no value and no default")


def test_inputs_reach_the_models(project: Path) -> None:
    (project / "b.yaml").write_text(BASE)
    (fault,) = told(project / "b.yaml", host="two\nlines")
    assert ".properties.hostname: must be a host name or address" in fault


def test_a_file_of_inputs_must_be_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "inputs.yaml").write_text("- host\n")
    with pytest.raises(InputError, match=r"inputs.yaml: a file of inputs must be a mapping of names to values$"):
        read_inputs(tmp_path / "inputs.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "the document is empty"), ("- a\n", "a blueprint must be a mapping with the key 'topology_template'")],
)
def test_what_is_no_blueprint_at_all(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "b.yaml").write_text(text)
    assert told(tmp_path / "b.yaml") == [f"{tmp_path / 'b.yaml'}: {says}"]


def test_a_blueprint_that_does_not_exist(tmp_path: Path) -> None:
    assert told(tmp_path / "b.yaml") == [f"{tmp_path / 'b.yaml'}: file not found"]


def test_the_blueprint_of_the_documentation_has_no_fault(project: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "blueprints.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    (project / "example.yaml").write_text(example)
    assert told(project / "example.yaml") == []


def test_a_relationship_type_without_a_parent(tmp_path: Path) -> None:
    """TOSCA 1.3 asks for none, and xOpera does (opera-tosca-parser 0.2.2, TypeEntity.validate)."""
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
    (tmp_path / "b.yaml").write_text(
        f"{head}relationship_types:\n  a.Type: {{description: one}}\ntopology_template: {{}}\n"
    )
    problems = {tool: [str(fault) for fault in validate(tmp_path / "b.yaml", None, tool)] for tool in TOOLS}
    fault = f"{tmp_path}/b.yaml:3: relationship_types.a.Type: the key 'derived_from' is required"
    assert problems == {"opera": [fault], "puccini": [fault], "tosca-parser": [], "unfurl": []}


JUNK: list[Any] = [
    None, 5, -1, 2.5, True, "x", "", [], {}, [1], ["x"], [None], {"a": 1}, {"type": 5}, {"type": ["x"]}, {"file": None},
    {"get_input": "host"}, {"get_input": None}, {"get_input": []}, {"get_property": []}, {"get_property": ["SELF"]},
    {"get_property": ["SELF", ["y"]]}, {"get_attribute": ["train", "plan"]}, {"concat": [1]}, {"token": []},
    {"join": [[]]}, {"get_artifact": []}, "modak.nodes.Job",
]  # fmt: skip


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a document."""
    if place:
        yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*place, key))


def test_whatever_stands_anywhere_is_told_and_nothing_breaks(project: Path) -> None:
    chance = random.Random(7)
    blueprint = project / "b.yaml"
    all_places = list(places(yaml.safe_load(BASE)))
    for _ in range(examples(200)):
        document = yaml.safe_load(BASE)
        *above, key = chance.choice(all_places)
        parent = document
        for part in above:
            parent = parent[part]
        parent[key] = chance.choice(JUNK)
        blueprint.write_text(yaml.safe_dump(document))
        for fault in told(blueprint):
            assert fault.startswith(f"{blueprint}:")
            assert "tosca-parser refuses it" not in fault, "our own checks find it, with its line"
