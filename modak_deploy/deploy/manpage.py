"""The manual page modak(1), made from the parser of the command line."""

import re
from collections.abc import Iterator
from typing import Any

import click

from modak_deploy import __version__

EXIT_CODES = {
    "0": "Done; the job that was waited for completed.",
    "2": "Something in a document or on the command line is wrong.",
    "3": "No candidate can do what was asked.",
    "4": "The target cannot be reached, or does not answer as it should.",
    "5": "The job did not complete, was refused, or has not ended in time.",
    "130, 143": "Stopped by Ctrl-C or SIGTERM; a submitted job goes on.",
}


def manual_page(command: Any) -> str:
    """Return the page in roff's man macros for the click command ``modak`` and all commands below it."""
    lines = [
        f'.TH MODAK 1 "" "modak {__version__}" "User Commands"',
        ".SH NAME",
        f"modak \\- {_text(_sentence(command))}",
        ".SH SYNOPSIS",
        ".B modak",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH COMMANDS",
    ]
    for path, leaf, context in _leaves(command, click.Context(command, info_name="modak")):
        lines += _section(path, leaf, context)
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {_text(code)}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _leaves(command: Any, context: click.Context) -> Iterator[tuple[str, Any, click.Context]]:
    """Yield the commands that do something, in the order of the help, with the words that call them."""
    if not getattr(command, "commands", None):
        yield context.command_path, command, context
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            yield from _leaves(child, click.Context(child, info_name=name, parent=context))


def _section(path: str, command: Any, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(path)}"
    yield from (f"\\fB{_text(path)}\\fR {_text(usage)}", ".PP", _text(" ".join((command.help or "").split())))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(record[1]) or "\\&")


def _sentence(command: Any) -> str:
    text = str(command.help or "").strip().split("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:]


def _text(text: str) -> str:
    """Return text that roff shows as it is: a line that begins with a dot or a quote would be a request."""
    line = re.sub(r"\s+", " ", text).strip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line
