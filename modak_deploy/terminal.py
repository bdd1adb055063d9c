"""Text for a terminal: what could move the cursor, hide or reorder text is shown as an escape, and never sent."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

EXCERPT = 300
"""Most characters of a target's text in a sentence."""
# C0 (but tab and line feed), DEL and C1 (U+009B starts a control sequence as ESC [ does); soft hyphen; Arabic letter
# mark; Mongolian vowel separator; zero-width and bidirectional controls and the line separators (U+200B to U+2069, UAX
# #9, "Trojan Source", CVE-2021-42574); byte order mark; interlinear annotation; lone surrogates, which
# cannot be encoded; noncharacters; shorthand and musical format controls; tags, which show nothing.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""Return ``text`` with unsafe characters as ``\uXXXX``; tab and line feed stay.

    The escapes are those of JSON: a JSON document means the same afterwards.
    """
    return UNSAFE.sub(_escape, text)


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """Return ``text`` as one visible line of at most about ``limit`` characters, for a sentence or a table."""
    line = _line(text[: 4 * limit].strip())
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[:limit]}..."


def ends(text: str, limit: int = EXCERPT) -> str:
    """Return ``text`` as ``excerpt`` does, but its two ends where it is long: a message has its cause at its end."""
    text = text.strip()
    if len(text) <= 4 * limit and len(line := _line(text)) <= limit:
        return line
    half = limit // 2
    return f"{_line(text[: 4 * half].rstrip())[:half]} ... {_line(text[-4 * half :].lstrip())[-half:]}"


def _line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def lines(text: str) -> list[str]:
    """Return the visible lines of a log: line feeds and carriage returns end one, and nothing else does."""
    return [visible(line) for line in re.split(r"\r\n|\n|\r", text.removesuffix("\n"))]


@contextmanager
def protected_output() -> Iterator[None]:
    """Let nothing unsafe reach standard output and standard error, whoever writes it."""
    out, err = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as null:
        shown, notes = out or null, err or null  # they are None where the shell has closed them, by '>&-'
        sys.stdout, sys.stderr = _Visible(shown), _Visible(notes, is_answer=False)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = out, err
            _drain(shown)
            _drain(notes)


def _drain(stream: IO[str]) -> None:
    """Write what is buffered, or drop it where the reader has ended, as ``head`` does: Python would exit with 120."""
    try:
        stream.flush()
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


class _Visible:
    """A text stream that writes to another one what ``visible`` makes of the text.

    There is no ``buffer``, by which libraries would write past it.
    """

    def __init__(self, stream: IO[str], *, is_answer: bool = True) -> None:
        self._stream, self._is_answer = stream, is_answer

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        try:
            self._stream.write(visible(text))
        except BrokenPipeError:
            self._end()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._end()

    def _end(self) -> None:
        """End the command: its reader wants no more, as ``head`` after some lines.

        What is done goes on where only notes are not read, and an error keeps its exit code.
        """
        _drain(self._stream)
        if self._is_answer:
            raise SystemExit(0)

    def writelines(self, texts: Iterator[str]) -> None:
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
