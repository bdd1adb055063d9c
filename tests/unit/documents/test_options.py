"""The playbooks' variables: their types, their names, and what documents say of them."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.documents import PlaybookOptions, parse_options, read_description
from modak_deploy.errors import InputError
from modak_deploy.util.text import close_match

NAMES = ["application", "target", "other_targets", "request", "job", "deployment", "secret_commands"]
NAMES += list(PlaybookOptions.model_fields)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"force": "true"}, {"force": True}),
        ({"force": "Yes", "wait": "off"}, {"force": True, "wait": False}),
        ({"record": True}, {"record": True}),
        ({"record": "false"}, {"record": False}),
        ({"record": "yes"}, {"record": True}),
        ({"timeout_seconds": " 90 "}, {"timeout_seconds": 90}),
        ({"search_paths": "a,b"}, {"search_paths": ["a", "b"]}),
        ({"search_paths": ["a,b"]}, {"search_paths": ["a,b"]}),
        ({"results": "true"}, {"results": "true"}),
        ({"force": None}, {}),
        ({"secret_commands": "1"}, {"secret_commands": True}),
    ],
)
def test_what_variables_say(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parse_options(given) == parse_options({}).model_copy(update=expected)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"wait": "maybe"}, "wait: must be true or false, not 'maybe'"),
        ({"force": ""}, "force: must be true or false, not ''"),
        ({"force": 1}, "force: must be true or false, not 1"),
        ({"timeout_seconds": "abc"}, "timeout_seconds: must be a whole number, not 'abc'"),
        ({"timeout_seconds": "²"}, "timeout_seconds: must be a whole number, not '²'"),
        ({"timeout_seconds": "9" * 5000}, "timeout_seconds: must be a whole number"),
        ({"timeout_seconds": -1}, "timeout_seconds: must be at least 0, not -1"),
        ({"timeout_seconds": True}, "timeout_seconds: must be a whole number, not true"),
        ({"results": []}, "results: must be text, not a list"),
        ({"results": ""}, "results: must not be empty"),
        ({"search_paths": {"a": 1}}, "search_paths: must be a list, not a mapping"),
    ],
)
def test_variables_of_another_type(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_options(given)
    assert str(caught.value).startswith(f"the extra variables: {sentence}")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("forse", "force"), ("Force", "force"), ("timeout", "timeout_seconds"), ("time_out_seconds", "timeout_seconds"),
        ("result", "results"), ("aplication", "application"), ("targets", "target"), ("deploymnet", "deployment"),
        ("recrod", "record"), ("secret_command", "secret_commands"),
        ("site_color", None), ("ansible_user", None), ("name", None), ("my_vault_token", None), ("x", None),
    ],
)  # fmt: skip
def test_names_that_are_nearly_ours(name: str, near: str | None) -> None:
    assert close_match(name, NAMES, cutoff=0.8, prefix=6) == near


def test_documents_may_hold_all_options_but_the_permission(tmp_path: Path) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text("application: {name: a, executable: b}\nrecord: true\nwait: false\nresults: there\n")
    _, options = read_description(document).parse()
    assert (options.record, options.wait, options.results) == (True, False, "there")
    overridden = parse_options({"wait": "true"}, options)
    assert (overridden.record, overridden.wait, overridden.results) == (True, True, "there")
    document.write_text("application: {name: a, executable: b}\nsecret_commands: true\nwait: maybe\n")
    with pytest.raises(InputError) as caught:
        read_description(document).parse()
    assert [line.split(": ", 1)[0] for line in str(caught.value).splitlines()] == [f"{document}:2", f"{document}:3"]


def test_changed_sections_keep_their_lines(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yml", tmp_path / "second.yml"
    first.write_text("application: {name: a, executable: b}\njob: {nodes: 1}\n")
    second.write_text("\ntarget:\n  name: far\n  host: -oProxyCommand=x\n")
    description = read_description(first, second)
    with pytest.raises(InputError) as caught:
        description.parse({"target": {**description.data["target"], "type": "slurm"}})
    assert str(caught.value).startswith(f"{second}:4: target.host: must be a host name or address")
