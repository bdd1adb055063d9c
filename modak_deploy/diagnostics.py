"""A problem in what somebody wrote, as a value: readers make it; only the command line and the plugins render it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from modak_deploy.addresses import without_password
from modak_deploy.terminal import visible

Location = tuple[int | str, ...]
"""The keys and indexes that lead to a value in a document."""
Severity = Literal["error", "warning"]


def dotted(location: Iterable[int | str]) -> str:
    """Return a location as users write it: ``target.partitions[0].name``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def location_of(path: str) -> Location:
    """Return the location that a dotted path such as ``application.inputs[0]`` stands for."""
    parts = re.split(r"[.\[\]]+", path)
    return tuple(int(part) if part.isdecimal() else part for part in parts if part)


@dataclass(frozen=True, order=True)
class Position:
    """Where something was written: a file, or what else was read, and a line of it."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


Locate = Callable[[Location], Position | None]
"""From the location of a value (or of a missing key) to where it was written."""


@dataclass(frozen=True)
class Key:
    """A key that a message mentions: a front end whose users write another name for it renames it as a value."""

    path: str
    """The dotted path in a deployment document, such as ``job.mail_events``."""

    def __str__(self) -> str:
        return f"'{self.path.rpartition('.')[2]}'"


Text = str | tuple[str | Key, ...]
"""A message or a hint; a tuple where it mentions keys."""


@dataclass(frozen=True)
class Diagnostic:
    """One problem: where it is, what it is, and what would be right.

    What comes from others is made visible here: no control characters, no passwords in addresses.
    """

    text: Text
    code: str = "invalid"
    """What kind of problem it is, for programs; docs/diagnostics.md lists the codes."""
    path: Location = ()
    """Keys that lead to the value; empty where the whole document, or none, is meant."""
    source: str = ""
    """The file, or what else was read, such as ``the variables``."""
    line: int | None = None
    hint_text: Text = ""
    """What to do, without the semicolon before it."""
    severity: Severity = "error"
    rejected_by: tuple[str, ...] = ()
    """The tools that reject a blueprint for it although TOSCA permits it; see modak_deploy.tosca.profiles."""

    def __post_init__(self) -> None:
        for name in ("text", "hint_text"):
            object.__setattr__(self, name, _safe(getattr(self, name)))
        object.__setattr__(self, "source", visible(without_password(self.source)))

    @property
    def message(self) -> str:
        """One sentence: the problem."""
        return _joined(self.text)

    @property
    def hint(self) -> str:
        """What to do about it; empty where the message says it all."""
        return _joined(self.hint_text)

    @property
    def where(self) -> str:
        """``file:line``, as far as it is set."""
        return str(Position(self.source, self.line))

    def __str__(self) -> str:
        """Return ``file:line: key: problem; hint``."""
        message = f"{self.message}; {self.hint}" if self.hint else self.message
        return ": ".join(part for part in (self.where, visible(dotted(self.path)), message) if part)

    def as_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints and what a task returns, as JSON values."""
        return {
            "source": self.source,
            "line": self.line,
            "path": visible(dotted(self.path)),
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
            "rejected_by": list(self.rejected_by),
        }

    def at(self, position: Position, path: Location | None = None) -> Self:
        """Return the same problem at another position, and under another ``path`` where one is given."""
        return replace(self, source=position.source, line=position.line, path=self.path if path is None else path)

    def as_warning(self) -> Self:
        """Return the problem as one that does not make the input invalid."""
        return replace(self, severity="warning")

    def renamed(self, rename: Callable[[str], str]) -> Self:
        """Return the problem with other names for the keys that its sentences mention; the path stays."""
        return replace(self, text=_renamed(self.text, rename), hint_text=_renamed(self.hint_text, rename))


def as_json(diagnostics: Iterable[Diagnostic]) -> str:
    """Return diagnostics as a JSON list, for programs."""
    return json.dumps([diagnostic.as_dict() for diagnostic in diagnostics], indent=2, ensure_ascii=False)


def _renamed(text: Text, rename: Callable[[str], str]) -> Text:
    if isinstance(text, str):
        return text
    return tuple(Key(rename(part.path)) if isinstance(part, Key) else part for part in text)


def _joined(text: Text) -> str:
    return text if isinstance(text, str) else "".join(map(str, text))


def _safe(text: Text) -> Text:
    if isinstance(text, str):
        return visible(without_password(text))
    return tuple(_safe(part) if isinstance(part, str) else part for part in text)  # type: ignore[misc]


class ModelError(ValueError):
    """What a model's own validator raises where its message mentions keys; pydantic hands it on as it is."""

    def __init__(self, *text: str | Key) -> None:
        super().__init__(_joined(text))
        self.text = text
