"""Diagnostics as values: how they are rendered, and how they reach the exit."""

import json
from pathlib import Path

import pytest

from modak_deploy import cli
from modak_deploy.diagnostics import Diagnostic, Key, Position, dotted, location_of
from modak_deploy.errors import InputError, OptionError, all_of

FIELDS = {"source", "line", "path", "code", "severity", "message", "hint", "rejected_by"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Return the exit code, and the diagnostics that standard output holds; standard error stays empty."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert err == ""
    diagnostics: list[dict[str, object]] = json.loads(out)
    assert all(set(diagnostic) == FIELDS for diagnostic in diagnostics)
    return int(ended.value.code or 0), diagnostics


@pytest.mark.parametrize(
    ("diagnostic", "text"),
    [
        (Diagnostic("it fails"), "it fails"),
        (Diagnostic("it fails", source="a.yml"), "a.yml: it fails"),
        (Diagnostic("must be text", path=("job", "inputs", 0), source="a.yml", line=3, hint_text="write it in quotes"),
         "a.yml:3: job.inputs[0]: must be text; write it in quotes"),
        (Diagnostic(("add ", Key("job.mail_events"))), "add 'mail_events'"),
        (Diagnostic("\x1b[31mred of https://me:secret@host/x"), "\\u001b[31mred of https://***@host/x"),
    ],
)  # fmt: skip
def test_diagnostic_is_rendered_as_file_line_key_problem_and_hint(diagnostic: Diagnostic, text: str) -> None:
    assert str(diagnostic) == text


def test_keys_in_a_message_are_renamed_as_values() -> None:
    diagnostic = Diagnostic(("add ", Key("job.mail_events"), " to 'mail_events'"))
    assert str(diagnostic.renamed(lambda path: {"job.mail_events": "job_options.events"}[path])) == (
        "add 'events' to 'mail_events'"
    )


@pytest.mark.parametrize("path", ["", "job", "job.nodes", "target.partitions[0].name"])
def test_a_path_and_its_location_stand_for_each_other(path: str) -> None:
    assert dotted(location_of(path)) == path


def test_an_error_without_a_source_gets_the_position_of_its_path() -> None:
    error = OptionError("not supported", key="job.qos").located(lambda location: Position("a.yml", len(location)))
    assert (str(error), error.exit_code, type(error)) == ("a.yml:2: job.qos: not supported", 2, OptionError)
    again = error.located(lambda _: Position("b.yml", 1))
    assert str(again) == str(error)


def test_diagnostics_of_several_errors_come_once() -> None:
    first, second = (
        InputError("one thing"),
        InputError([Diagnostic("another"), Diagnostic("one thing", "invalid-input")]),
    )
    assert [diagnostic.message for diagnostic in all_of([first, second])] == ["one thing", "another"]


def test_plan_prints_diagnostics_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text("application:\n  name: a\n  scrpt: x\njob: {nodes: two}\n")
    code, diagnostics = run(capsys, "plan", str(document), "--json")
    assert code == 2
    assert [(d["source"], d["line"], d["path"], d["code"], d["hint"]) for d in diagnostics] == [
        (str(document), 3, "application", "unknown-key", "did you mean 'script'?"),
        (str(document), 4, "job.nodes", "wrong-type", ""),
    ]


def test_blueprint_validate_prints_diagnostics_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blueprint = tmp_path / "b.yaml"
    blueprint.write_text("tosca_definitions_version: tosca_simple_yaml_1_3\ntopology_templat: {}\n")
    code, diagnostics = run(capsys, "blueprint", "validate", str(blueprint), "--json")
    assert code == 2
    assert {(d["line"], d["code"]) for d in diagnostics} == {(2, "unknown-key")}
    with pytest.raises(SystemExit):
        cli.main(["blueprint", "validate", str(tmp_path / "absent.yaml"), "--json"])
    assert [d["code"] for d in json.loads(capsys.readouterr().out)] == ["file-not-found"]


def test_catalogue_validate_prints_diagnostics_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "levers.yaml"
    file.write_text("levers: []\n")
    code, diagnostics = run(capsys, "catalogue", "validate", str(file), "--json")
    assert (code, [(d["source"], d["line"], d["code"]) for d in diagnostics]) == (2, [(str(file), 1, "missing-key")])
    file.write_text("version: 1\nlevers: []\n")
    _code, diagnostics = run(capsys, "catalogue", "validate", str(file), "--json")
    assert diagnostics == []
