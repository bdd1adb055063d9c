"""Every command of modak that a page shows exists, with the subcommands and options that it is shown with.

The tutorials' commands are run as well (tests/docs); these are all others, in blocks and within sentences.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.cli import command_line
from modak_deploy.evidence.cli import _DefaultGroup

TOP = Path(__file__).resolve().parents[3]
PAGES = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md")), *sorted((TOP / "examples").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(modak [^`]+)`")
LINE = re.compile(r"^(?:\$ )?(modak [^#\n]*)", re.MULTILINE)
INDENTED = re.compile(r"^ {4}(modak [^#\n]*)", re.MULTILINE)
PLACEHOLDER = re.compile(r"\|| 2?>|[;&<>]|\s#")
"""Where a command ends for this test: at a pipe, a redirection, another command or a comment."""


def shown(text: str) -> Iterator[str]:
    """Yield the commands of a page, each up to the first pipe, redirection or comment."""
    text = text.replace("\\\n", " ")
    outside = BLOCK.sub("", text)
    blocks = [body for kind, body in BLOCK.findall(text) if kind in ("", "sh", "console", "bash")]
    found = [
        *INLINE.findall(" ".join(outside.split())),
        *INDENTED.findall(outside),
        *(c for b in blocks for c in LINE.findall(b)),
    ]
    for command in found:
        yield PLACEHOLDER.split(command, maxsplit=1)[0]


def fault(tree: Any, words: list[str]) -> str | None:
    """Return what is wrong with a command line, or None."""
    command, rest = tree, list(words)
    while rest and (commands := getattr(command, "commands", None)):
        name = rest[0]
        if name.startswith("-"):
            return None if name in options(command) else f"no option {name}"
        if name in commands:
            command, rest = commands[name], rest[1:]
        elif isinstance(command, _DefaultGroup):
            command = commands["run"]
        else:
            return f"no command {name}"
    for word in rest:
        option = word.split("=", maxsplit=1)[0]
        if option.startswith("-") and not re.fullmatch(r"-\d+", option) and option not in options(command):
            return f"no option {option}"
    return None


def options(command: Any) -> set[str]:
    names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return names | {"-h", "--help"}


@pytest.fixture(scope="module")
def tree() -> Any:
    return command_line()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_the_commands_that_a_page_shows_exist(page: Path, tree: Any) -> None:
    wrong = []
    for command in shown(page.read_text()):
        try:
            words = shlex.split(command)[1:]
        except ValueError:
            words = command.split()[1:]
        if words and re.match(r"[a-z-]", words[0]) and (problem := fault(tree, words)):
            wrong.append(f"{command}: {problem}")
    assert wrong == []


def test_unknown_commands_and_options_are_recognised(tree: Any) -> None:
    block = "```sh\nmodak plna d.yml\nmodak plan d.yml --json | head -n 2\n```\n"
    text = f"`modak plan d.yml --jsn`, `modak image pul X`\n\n{block}"
    faults = [fault(tree, command.split()[1:]) for command in shown(text)]
    assert faults == ["no option --jsn", "no command pul", "no command plna", None]
