"""The document's command line: text in the shell's spelling; quotes, variables and redirections have their meaning."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modak import shell
from modak.errors import InputError

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


def argv_of(place: str, text: str, more_place: str, more: str, *, ranks: int = 1) -> list[str]:
    """Return the command line of two texts.

    Where it names variables or redirections a shell inside the job carries them out, and nothing else: what was quoted
    stays as it is. InputError names the place of anything else that only a shell could do, and of an output file that
    several ranks would overwrite.
    """
    words = [*_words(place, text), *_words(more_place, more)]
    _check_redirections(place if _redirections(_words(place, text)) else more_place, words, ranks)
    if not words or words[0] == [""]:
        raise InputError(f"no program in '{text}'", key=place)
    if all(isinstance(piece, str) for word in words for piece in word):
        return ["".join(str(piece) for piece in word) for word in words]
    return ["sh", "-c", f"exec {' '.join(_spelt(word) for word in words)}"]


def _redirections(words: Sequence[Sequence[Piece]]) -> list[tuple[int, Redirection]]:
    return [(i, piece) for i, word in enumerate(words) for piece in word if isinstance(piece, Redirection)]


def _check_redirections(place: str, words: Sequence[Sequence[Piece]], ranks: int) -> None:
    for index, redirection in _redirections(words):
        follows = index + 1 < len(words) and not isinstance(words[index + 1][0], Redirection)
        if "&" not in redirection.text and not follows:
            raise InputError(f"a file is required after '{redirection.text}'", key=place)
        if redirection.writes and ranks > 1:
            raise InputError(
                f"with '{redirection.text}' each of the {ranks} ranks would overwrite one file",
                key=place,
                hint="use job_options.standard_output_file",
            )


def _spelt(word: Sequence[Piece]) -> str:
    if isinstance(word[0], Redirection):
        return word[0].text
    parts = (f'"${{{p.name}}}"' if isinstance(p, Variable) else shell.quote(str(p)) for p in word if p)
    return "".join(parts) or "''"


def _words(place: str, text: str) -> list[list[Piece]]:
    words: list[list[Piece]] = []
    current: list[Piece] | None = None
    position = 0
    while position < len(text):
        char = text[position]
        if text.startswith("\\\n", position):
            position += 2
            continue
        if char in " \t":
            if current is not None:
                words.append(current)
            current, position = None, position + 1
            continue
        if match := _redirection(text, position, current):
            words += [[Redirection(match[0])]] if current is None else [current, [Redirection(match[0])]]
            current, position = None, match.end()
            continue
        current = [] if current is None else current
        pieces, position = _next(place, text, position)
        current += pieces or [""]
    return [*words, current] if current is not None else words


def _redirection(text: str, position: int, current: Sequence[Piece] | None) -> re.Match[str] | None:
    """Return the redirection at ``position``; a number before it belongs to it only where it begins a word."""
    match = _REDIRECTION.match(text, position)
    if match is None or current is None:
        return match
    return None if match["number"] or all(isinstance(piece, str) and piece.isdigit() for piece in current) else match


def _next(place: str, text: str, position: int) -> tuple[list[Piece], int]:
    """Return what stands at ``position`` of a word, and the position behind it."""
    char = text[position]
    if char == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise InputError("a quote is opened and not closed", key=place)
        return [text[position + 1 : end]], end + 1
    if char == '"':
        return _double(place, text, position + 1)
    if char == "\\" and position + 1 < len(text):
        return [text[position + 1]], position + 2
    if char == "$":
        return _variable(place, text, position)
    if char in _OPERATORS:
        shown = "a line break" if char == "\n" else f"'{char}'"
        raise InputError(f"{shown} means something to a shell only", key=place, hint="quote it, or use pre-execution")
    return [char], position + 1


def _double(place: str, text: str, position: int) -> tuple[list[Piece], int]:
    pieces: list[Piece] = [""]
    while position < len(text):
        char = text[position]
        if char == '"':
            return pieces, position + 1
        if char == "\\" and text[position + 1 : position + 2] in ('"', "\\", "$", "`"):
            pieces.append(text[position + 1])
            position += 2
        elif char == "$":
            found, position = _variable(place, text, position)
            pieces += found
        elif char == "`":
            raise InputError("'`' starts a command of its own", key=place, hint="put it into pre-execution")
        else:
            pieces.append(char)
            position += 1
    raise InputError("a quote is opened and not closed", key=place)


def _variable(place: str, text: str, position: int) -> tuple[list[Piece], int]:
    match = _VARIABLE.match(text, position)
    if match is None:
        raise InputError("'$' starts no plain variable such as $HOME", key=place, hint="quote it, or use pre-execution")
    return [Variable(match[1] or match[2])], match.end()
