"""``-e KEY=VALUE``: options of a run, and single values of the documents. No value is ever rendered as a template."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy.diagnostics import Location, Position
from modak_deploy.documents.deployment import Description, RunOptions, parse_options, read_description
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.util.text import close_match, did_you_mean

SECTIONS = tuple(Deployment.model_fields)
_ORIGIN = "-e"
_FILES = ("results", "search_paths")
"""Options of a run that any command heeds: they say where files are."""


@dataclass(frozen=True)
class Extra:
    """What ``-e`` gives: the options of the run, and values by their location in the documents."""

    options: Mapping[str, str]
    values: Mapping[Location, Any]


def read_extra(given: Sequence[str]) -> Extra:
    """Return what the arguments of ``-e`` say; InputError for one that is not ``KEY=VALUE`` with a valid key."""
    options: dict[str, str] = {}
    values: dict[Location, Any] = {}
    names = list(RunOptions.model_fields)
    for text in given:
        key, sign, value = text.partition("=")
        path = tuple(key.split("."))
        if not sign or not all(path):
            raise InputError(f"'{text}' is not KEY=VALUE", source=_ORIGIN, hint="such as -e job.wall_time=30m")
        if key in names:
            options[key] = value
        elif len(path) > 1 and path[0] in SECTIONS and path[0] != "other_targets":
            values[path] = _value(value)
        elif path[0] in SECTIONS:
            problem = f"the section '{path[0]}' cannot be given as a whole"
            raise InputError(problem, source=_ORIGIN, hint=_instead(path[0], value))
        else:
            there = f"there are {', '.join(names)}, and keys of the documents such as job.wall_time"
            raise InputError(f"the key '{key}' is unknown", source=_ORIGIN, hint=_meant(key, names) or there)
    return Extra(options, values)


def keys_of(section: str) -> list[str]:
    """Return the keys of a section, by which ``-e`` names them."""
    return list(getattr(Deployment.model_fields[section].annotation, "model_fields", ()))


def _meant(key: str, names: Sequence[str]) -> str:
    """Return the hint what an unknown key is meant to be: a key without its section, or a misspelt name."""
    first, dot, rest = key.partition(".")
    if dot:
        section = close_match(first, SECTIONS)
        return f"did you mean '{section}.{rest}'?" if section else ""
    holders = [section for section in SECTIONS if key in keys_of(section)]
    return f"did you mean '{holders[0]}.{key}'?" if holders else did_you_mean(key, [*names, *SECTIONS])


def _instead(section: str, value: str) -> str:
    """Return the hint how a section is given: by its keys, and a site by its name; a list of targets in a document."""
    if section == "other_targets":
        return "write it into a document of its own"
    keys = keys_of(section)
    example = f"site={value}" if section == "target" and value[:1].isalnum() else f"{keys[0]}=..."
    return f"give its keys, such as -e {section}.{example}"


@dataclass(frozen=True)
class _Changed(Description):
    """A description with values of ``-e`` in place of the documents'."""

    paths: tuple[Location, ...] = ()
    """The locations of these values."""

    def _locate(self, location: Location) -> Position:
        if any(location[: len(path)] == path for path in self.paths) or self._made(location):
            return Position(_ORIGIN)
        return super()._locate(location)

    def _made(self, location: Location) -> bool:
        """Whether what is there, or lacks the rest of ``location``, exists only because a key in it was given."""
        reached = location[: _depth(self.data, location)]
        if not any(path[: len(reached)] == reached for path in self.paths if reached):
            return False
        return all(_depth(document.data, reached) < len(reached) for document in self.documents)


def _depth(data: Any, location: Location) -> int:
    """Return how many parts of ``location`` lead somewhere."""
    for number, part in enumerate(location):
        if not isinstance(data, Mapping) or part not in data:
            return number
        data = data[part]
    return len(location)


def with_values(description: Description, extra: Extra) -> Description:
    """Return the description with the values of ``-e``, at which it locates what is wrong with them.

    They are put there before the settings of sites are, which stay for all other keys.
    """
    changes: dict[str, Any] = {}
    for path, value in extra.values.items():
        section = str(path[0])
        if section not in changes:
            changes[section] = _section(section, deepcopy(description.data.get(section)))
        _set(changes[section], path, value)
    return _Changed(description.documents, {**description.data, **changes}, tuple(extra.values))


def read_described(documents: Sequence[Path], given: Sequence[str]) -> tuple[Description, Deployment, RunOptions]:
    """Return what documents and the arguments of ``-e`` describe, for a command that deploys nothing.

    InputError for an option by which only a deployment goes.
    """
    extra = read_extra(given)
    for key in extra.options:
        if key not in _FILES:
            there = f"there are {', '.join(_FILES)}, and keys of the documents such as job.wall_time"
            raise InputError(f"'{key}' is an option of deployments, and this is none", source=_ORIGIN, hint=there)
    description = with_values(read_description(*documents), extra)
    deployment, documented = description.parse()
    return description, deployment, parse_options(extra.options, documented)


def _section(name: str, written: Any) -> Any:
    """Return a section in which keys can be set; a target that is text names a site."""
    return {"site": written} if name == "target" and isinstance(written, str) else written or {}


def _set(section: Any, path: Location, value: Any) -> None:
    for part in path[1:-1]:
        if isinstance(section, dict):
            section = section.setdefault(part, {})
    if not isinstance(section, dict):
        key = ".".join(map(str, path))
        problem = f"'{key}' cannot be set: its section is not a mapping"
        raise InputError(problem, source=_ORIGIN, hint="write it into the document")
    section[path[-1]] = value


def _value(text: str) -> Any:
    """Return JSON as what it means, and anything else as text: YAML would read 1:30 and yes in its own way."""
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return text
