"""The document's command line: text in the shell's spelling; quotes, variables and redirections have their meaning."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modak_deploy import shell
from modak_deploy.errors import InputError

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_REDIRECTION = re.compile(r"(?P<number>\d?)(?P<operator>>>|<|>)(?P<copy>&\d)?(?![<>&|])")
_OPERATORS = ";&|<>()`\n*?"


@dataclass(frozen=True)
class Variable:
    """A variable of the job's environment."""

    name: str


@dataclass(frozen=True)
class Redirection:
    """A redirection as the shell writes it; the word behind it is its file, unless it copies a descriptor."""

    text: str

    @property
    def writes(self) -> bool:
        """Tell whether a file is written."""
        return ">" in self.text and "&" not in self.text


Piece = str | Variable | Redirection


def argv_of(key: str, text: str, more_key: str, more: str, *, ranks: int = 1, python: bool = False) -> list[str]:
    """Return the command line of two texts; with ``python`` a program whose name ends in .py is given to python3.

    Where it names variables or redirections a shell inside the job carries them out, and nothing else: what was quoted
    stays as it is. InputError names the key of anything else that only a shell could do, and of an output file that
    several ranks would overwrite.
    """
    arguments = [*_split(key, text), *_split(more_key, more)]
    _check_redirections(key if _redirections(_split(key, text)) else more_key, arguments, ranks)
    if not arguments or arguments[0] == [""]:
        raise InputError(f"no program in '{text}'", key=key)
    if python and "".join(piece for piece in arguments[0] if isinstance(piece, str)).endswith(".py"):
        arguments.insert(0, ["python3"])
    if all(isinstance(piece, str) for argument in arguments for piece in argument):
        return ["".join(str(piece) for piece in argument) for argument in arguments]
    return ["sh", "-c", f"exec {' '.join(_spelt(argument) for argument in arguments)}"]


def _redirections(arguments: Sequence[Sequence[Piece]]) -> list[tuple[int, Redirection]]:
    return [(i, piece) for i, argument in enumerate(arguments) for piece in argument if isinstance(piece, Redirection)]


def _check_redirections(key: str, arguments: Sequence[Sequence[Piece]], ranks: int) -> None:
    for index, redirection in _redirections(arguments):
        follows = index + 1 < len(arguments) and not isinstance(arguments[index + 1][0], Redirection)
        if "&" not in redirection.text and not follows:
            raise InputError(f"a file is required after '{redirection.text}'", key=key)
        if redirection.writes and ranks > 1:
            raise InputError(
                f"with '{redirection.text}' each of the {ranks} ranks would overwrite one file",
                key=key,
                hint="use job_options.standard_output_file",
            )


def _spelt(argument: Sequence[Piece]) -> str:
    if isinstance(argument[0], Redirection):
        return argument[0].text
    parts = (f'"${{{p.name}}}"' if isinstance(p, Variable) else shell.quote(str(p)) for p in argument if p)
    return "".join(parts) or "''"


def _split(key: str, text: str) -> list[list[Piece]]:
    arguments: list[list[Piece]] = []
    current: list[Piece] | None = None
    position = 0
    while position < len(text):
        char = text[position]
        if text.startswith("\\\n", position):
            position += 2
            continue
        if char in " \t":
            if current is not None:
                arguments.append(current)
            current, position = None, position + 1
            continue
        if match := _redirection(text, position, current):
            arguments += [[Redirection(match[0])]] if current is None else [current, [Redirection(match[0])]]
            current, position = None, match.end()
            continue
        current = [] if current is None else current
        pieces, position = _next(key, text, position)
        current += pieces or [""]
    return [*arguments, current] if current is not None else arguments


def _redirection(text: str, position: int, current: Sequence[Piece] | None) -> re.Match[str] | None:
    """Return the redirection at ``position``; a number before it belongs to it only where it begins a word."""
    match = _REDIRECTION.match(text, position)
    if match is None or current is None:
        return match
    return None if match["number"] or all(isinstance(piece, str) and piece.isdigit() for piece in current) else match


def _next(key: str, text: str, position: int) -> tuple[list[Piece], int]:
    """Return what stands at ``position`` of a word, and the position behind it."""
    char = text[position]
    if char == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise InputError("a quote is opened and not closed", key=key)
        return [text[position + 1 : end]], end + 1
    if char == '"':
        return _double(key, text, position + 1)
    if char == "\\" and position + 1 < len(text):
        return [text[position + 1]], position + 2
    if char == "$":
        return _variable(key, text, position)
    if char in _OPERATORS:
        shown = "a line break" if char == "\n" else f"'{char}'"
        raise InputError(f"{shown} means something to a shell only", key=key, hint="quote it, or use pre-execution")
    return [char], position + 1


def _double(key: str, text: str, position: int) -> tuple[list[Piece], int]:
    pieces: list[Piece] = [""]
    while position < len(text):
        char = text[position]
        if char == '"':
            return pieces, position + 1
        if char == "\\" and text[position + 1 : position + 2] in ('"', "\\", "$", "`"):
            pieces.append(text[position + 1])
            position += 2
        elif char == "$":
            pieces_inside, position = _variable(key, text, position)
            pieces += pieces_inside
        elif char == "`":
            raise InputError("'`' starts a command of its own", key=key, hint="put it into pre-execution")
        else:
            pieces.append(char)
            position += 1
    raise InputError("a quote is opened and not closed", key=key)


def _variable(key: str, text: str, position: int) -> tuple[list[Piece], int]:
    match = _VARIABLE.match(text, position)
    if match is None:
        raise InputError("'$' starts no plain variable such as $HOME", key=key, hint="quote it, or use pre-execution")
    return [Variable(match[1] or match[2])], match.end()
