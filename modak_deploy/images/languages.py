"""The languages of definition files: how values become part of them, and what the whole text may consist of.

Everything that comes from a catalogue passes through here once more on its way into a definition, although the models
refuse the same: an entry made by ``model_copy`` or ``model_construct`` is not validated.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from modak_deploy.errors import InputError
from modak_deploy.model.image import definition_text

Form = Literal["apptainer", "containerfile"]
_VARIABLE = re.compile(r"\$(?=[A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\})")
"""What stands for a variable of the base image; every other ``$`` is an ordinary character."""


class Language(Protocol):
    """One language of definition files."""

    def label(self, name: str, value: str) -> str:
        """Return a label's value as it is written."""

    def variable(self, name: str, value: str) -> str:
        """Return a variable's value as it is written; ``$NAME`` and ``${NAME}`` stand for what the base has."""

    def check(self, text: str) -> None:
        """Raise InputError where the whole text has a part that modak writes in no definition."""


class SingularityDefinition:
    """Definition files of Apptainer and Singularity.

    A line whose first word begins with '%' begins a section (apptainer 1.4.5, pkg/build/types/parser). %setup and %pre
    run on the host. Labels are written bare: 'NAME VALUE', quotes and '#' included, white space at both ends removed.
    """

    SECTIONS = frozenset({"post", "files", "environment", "labels", "runscript", "test"})

    def label(self, name: str, value: str) -> str:
        """See Language."""
        return _text(f"label '{name}'", value)

    def variable(self, name: str, value: str) -> str:
        """See Language."""
        return _in_quotes(_text(f"variable '{name}'", value), '\\"`')

    def check(self, text: str) -> None:
        """See Language."""
        for number, line in _lines(text):
            if line.startswith("%") and line[1:] not in self.SECTIONS:
                raise InputError(f"line {number} of the Apptainer definition begins a section '{line[:60]}'")
        header = [line for _, line in _lines(text) if re.match(r"(?i)(bootstrap|from)\s*:", line)]
        if len(header) != 2:
            raise InputError("the Apptainer definition has more than one header")
        _no_template(text)


class Containerfile:
    """Containerfiles, as buildah and docker read them; ch-image reads the same text as its Dockerfile.

    Between double quotes a backslash escapes '"', '$' and itself; before a backquote it stays (buildah 1.28.2).
    """

    INSTRUCTIONS = frozenset({"FROM", "RUN", "COPY", "ENV", "LABEL"})

    def label(self, name: str, value: str) -> str:
        """See Language."""
        return _in_quotes(_text(f"label '{name}'", value), '\\"', variables=False)

    def variable(self, name: str, value: str) -> str:
        """See Language."""
        return _in_quotes(_text(f"variable '{name}'", value), '\\"')

    def check(self, text: str) -> None:
        """See Language."""
        continued = False
        for number, line in _lines(text):
            if not line or line.startswith("#"):
                continue
            token = line.split()[0]
            if not continued and token not in self.INSTRUCTIONS:
                raise InputError(f"line {number} of the Containerfile begins an instruction '{token[:60]}'")
            continued = line.endswith("\\")
        if sum(line.startswith("FROM ") for _, line in _lines(text)) != 1:
            raise InputError("the Containerfile has more than one base")


LANGUAGES: Mapping[Form, Language] = {"apptainer": SingularityDefinition(), "containerfile": Containerfile()}


def comment_text(what: str, value: str) -> str:
    """Return a text for a comment, checked like any other."""
    return _text(what, value)


def _text(what: str, value: str) -> str:
    try:
        return definition_text(value)
    except ValueError as error:
        raise InputError(f"the {what} {error}") from None


def _in_quotes(text: str, special: str, *, variables: bool = True) -> str:
    """Return ``text`` in double quotes, with a backslash before each ``special`` character, '$' apart."""
    for character in special:
        text = text.replace(character, "\\" + character)
    if not variables:
        return f'"{text.replace("$", chr(92) + "$")}"'
    alive = {match.start() for match in _VARIABLE.finditer(text)}
    pieces = ("\\$" if char == "$" and at not in alive else char for at, char in enumerate(text))
    return f'"{"".join(pieces)}"'


def _lines(text: str) -> Iterable[tuple[int, str]]:
    """Yield number and content of each line, as the widest reader sees lines."""
    yield from ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))


def _no_template(text: str) -> None:
    if "{{" in text or "}}" in text:
        raise InputError("the Apptainer definition contains '{{' or '}}', which Apptainer takes for a template")
