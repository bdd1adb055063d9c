"""What a command answers: text for people, or one JSON value with ``--json``.

Every command has the option. One that does not declare it itself gets it from ``add_json_option``, and calls ``answer``
at its end; whatever else it writes to standard output meanwhile, such as progress, goes to standard error then.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Annotated, Any

HELP = "Write the result as JSON; on an error, its diagnostics."


class _Answers:
    """The answer of the running command."""

    def __init__(self) -> None:
        self.output: IO[str] | None = None
        """Standard output, where ``--json`` is given and it waits for the answer."""
        self.value: Any = None


_answers = _Answers()


def answer(value: Any, text: str = "") -> None:
    """Give the result: ``value`` as JSON, made of models, dataclasses, mappings and lists, or else the ``text``."""
    if _answers.output is not None:
        _answers.value = value
    elif text:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


@contextmanager
def answering() -> Iterator[None]:
    """Write the answer of a command at its end, where it is wanted as JSON; an error leaves that to others."""
    _answers.output = _answers.value = None
    try:
        yield
    except SystemExit as end:
        if not end.code:
            _finish()
        raise
    else:
        _finish()
    finally:
        if _answers.output is not None:
            sys.stdout, _answers.output = _answers.output, None


def _finish() -> None:
    if _answers.output is not None:
        from pydantic_core import to_json

        text = to_json(_answers.value, indent=2, by_alias=True, inf_nan_mode="null", fallback=str).decode()
        _answers.output.write(text + "\n")


def _wanted(value: bool) -> bool:
    if value and _answers.output is None:
        _answers.output, sys.stdout = sys.stdout, sys.stderr
    return value


def add_json_option(command: Any) -> None:
    """Add ``--json`` to the commands at and below ``command`` that do not declare it."""
    commands = getattr(command, "commands", {})
    for child in commands.values():
        add_json_option(child)
    if not commands and not any("--json" in parameter.opts for parameter in command.params):
        command.params.append(_option())


def _option() -> Any:
    """Return the option as Typer makes it, whose own classes take other arguments from version to version."""
    import typer  # not by those who give an answer: Ansible's plugins call some of them, and need no parser
    import typer.main

    app = typer.Typer(add_completion=False)

    @app.command()
    def _(
        json: Annotated[bool, typer.Option("--json", help=HELP, callback=_wanted, expose_value=False)] = False,
    ) -> None: ...

    return typer.main.get_command(app).params[0]
