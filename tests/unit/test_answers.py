"""``--json`` everywhere: one JSON value on standard output, the result or the diagnostics, and nothing beside it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import cli
from modak_deploy.answers import answer

CASES = yaml.safe_load((Path(__file__).parents[1] / "data" / "commands" / "json.yaml").read_text())
LEVER = "version: 1\nlevers: [{name: mine, group: allocator, summary: A lever., environment: {A: b}}]\n"


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands, with the words that call them."""
    below = getattr(command, "commands", {})
    if not below:
        yield words, command
    for name, child in below.items():
        yield from commands(child, (*words, name))


ALL = dict(commands(cli.command_line()))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_the_option_once(words: tuple[str, ...]) -> None:
    options = [option for parameter in ALL[words].params for option in parameter.opts]
    assert options.count("--json") == 1


def test_every_command_is_tried_below() -> None:
    tried = [tuple(case["run"].split()) for case in CASES]
    assert [words for words in ALL if not any(case[: len(words)] == words for case in tried)] == []


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the function that runs a command in the folder, and returns its code and what it wrote."""
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_commands_write_one_value(call: Any, tmp_path: Path) -> None:
    probe = {"name": "probe", "type": "hpc", "executable": "true"}
    target = {"name": "here", "workspace": str(tmp_path / "space"), "polling": {"first": 0.1, "maximum": 0.2}}
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump({"application": probe, "target": target}))
    (tmp_path / "levers.yaml").write_text(LEVER)
    wrong = []
    for case in CASES:
        code, out, err = call(*case["run"].split(), "--json")
        if case.get("usage"):
            value, right = None, out == ""
        else:
            try:
                value = json.loads(out)
            except ValueError:
                value = out
            if code or case.get("list"):
                right = isinstance(value, list) and all(not code or {"message", "code"} <= set(part) for part in value)
            else:
                right = isinstance(value, dict) and set(case.get("keys", ())) <= set(value)
        if code != case.get("code", 0) or not right or "Traceback" in err:
            wrong.append((case["run"], code, str(value)[:300], err[-300:]))
    assert wrong == [], "\n".join(map(str, wrong))


def test_without_the_option_the_answer_is_text(call: Any) -> None:
    code, out, _ = call("catalogue", "show", "malloc-hugepages")
    assert code == 0
    assert out.startswith("levers:\n- name: malloc-hugepages\n")
    # The option of one call says nothing about the next one in the same process.
    assert call("catalogue", "show", "malloc-hugepages", "--json")[1].startswith("{")
    assert call("catalogue", "show", "malloc-hugepages")[1] == out


def test_progress_goes_to_standard_error_and_numbers_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "from modak_deploy import cli; from modak_deploy.answers import answer\n"
        "@cli.app.command()\ndef odd():\n  print('progress'); answer({'a': float('nan'), 'b': {1}, 'c': '\\x1b[2J'})\n"
        "cli.main(['odd', '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"a": None, "b": [1], "c": "\x1b[2J"}
    assert "\x1b" not in done.stdout
    assert done.stderr == "progress\n"
    answer({"a": 1}, "text")
    assert capsys.readouterr().out == "text\n"
