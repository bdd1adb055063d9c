"""Every faulty document of the table is told exactly as the table says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.diagnostics import Position
from modak_deploy.documents import load_deployment, parse_deployment
from modak_deploy.documents.validation import PATTERNS
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment

CASES = yaml.safe_load((Path(__file__).parents[2] / "data" / "documents" / "faults.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_fault(case: dict[str, Any], tmp_path: Path) -> None:
    document = tmp_path / "document.yml"
    document.write_text(case["text"])
    with pytest.raises(InputError) as caught:
        load_deployment(document)
    assert str(caught.value).replace(str(document), "FILE").splitlines() == case["faults"]
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == case["codes"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"application:\n  name: \xff\n", ":2: this is not UTF-8 text"),
        ("application:\n".encode("utf-16"), ":1: this is not UTF-8 text"),
        (b"application: {name: a\x07}\n", ":1: the character U+0007 is not allowed in YAML"),
        (b"[" * 100_000, ":1: the document is nested deeper than 100 levels"),
    ],
)
def test_text_that_is_none(content: bytes, fault: str, tmp_path: Path) -> None:
    document = tmp_path / "document.yml"
    document.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_deployment(document)
    assert str(caught.value) == f"{document}{fault}"


def test_aliases_that_explode(tmp_path: Path) -> None:
    document = tmp_path / "document.yml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    document.write_text("\n".join(lines))
    with pytest.raises(InputError, match="more than 100000 values"):
        load_deployment(document)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.yml: file not found$"):
        load_deployment(tmp_path / "absent.yml")
    with pytest.raises(InputError, match=r": this is a folder, not a file$"):
        load_deployment(tmp_path)


def test_variables_tell_their_origin() -> None:
    with pytest.raises(InputError) as caught:
        parse_deployment({"application": {"name": "a", "scrpt": "x"}, "job": {"nodes": 2.9}}, origin="the variables")
    assert str(caught.value).splitlines() == [
        "the variables: application: unknown key 'scrpt'; did you mean 'script'?",
        "the variables: job.nodes: must be a whole number, not 2.9",
    ]


def test_variables_with_their_own_places() -> None:
    places = {("job", "nodes"): Position("site.yml", 7), ("application", "scrpt"): Position("site.yml", 3)}
    with pytest.raises(InputError) as caught:
        parse_deployment(
            {"application": {"name": "a", "scrpt": "x"}, "job": {"nodes": 2.9}},
            origin="the variables",
            locate=places.get,
        )
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == ["site.yml:3", "site.yml:7"]


def patterns(schema: Any) -> set[str]:
    """Return every pattern anywhere in a JSON schema."""
    if isinstance(schema, dict):
        own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return own.union(*(patterns(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(patterns(value) for value in schema))
    return set()


def test_every_pattern_has_its_words() -> None:
    assert patterns(Deployment.model_json_schema()) <= set(PATTERNS)
