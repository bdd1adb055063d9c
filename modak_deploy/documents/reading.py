"""YAML text to plain data, with the line of everything in it."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.diagnostics import Diagnostic, Location, Position
from modak_deploy.documents.plain import plain
from modak_deploy.errors import InputError

_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 100
"""Levels of nesting; the C parser ends the whole process at some ten thousand."""
_LIBYAML_DEEP = "exceeded maximum nesting depth"
"""What libyaml says by itself of brackets, which it reads ahead (PyYAML 6.0.4; earlier ones left it to the reader)."""
_MOST = 100_000
"""Values in one document, aliases expanded."""
_MOST_BYTES = 64 * 1024**2
"""Bytes of one file: a device such as /dev/zero has no end."""
_MOST_DIGITS = 40
"""Characters of a number. Python refuses to convert more than 4300 digits (CVE-2020-10735)."""

_SURROGATES = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)\\u(?P<high>[dD][89abAB][\da-fA-F]{2})\\u(?P<low>[dD][c-fC-F][\da-fA-F]{2})"
)
"""A character beyond U+FFFF as JSON escapes it (RFC 8259, section 7), which YAML does not know."""


@dataclass(frozen=True)
class Outline:
    """The lines of a YAML file's parts, whatever their values are."""

    path: Path
    root: yaml.Node

    def locate(self, location: Location) -> Position:
        """Return file and line of the deepest part that ``location`` reaches."""
        return Position(str(self.path), _line(self.root, location))

    def node(self, location: Location) -> yaml.Node | None:
        """Return what stands at ``location``, as it was written; None where nothing does."""
        node: yaml.Node | None = self.root
        for part in location:
            step = _step(node, part)
            node = None if step is None else step[1]
        return node

    def written(self, location: Location) -> str | None:
        """Return the text of the value at ``location`` as it was written; None where there is no single one."""
        node = self.node(location)
        return node.value if isinstance(node, yaml.ScalarNode) else None

    def sections(self) -> dict[str, yaml.Node]:
        """Return the values of the top-level keys; none when the document is no mapping."""
        pairs = self.root.value if isinstance(self.root, yaml.MappingNode) else []
        return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}

    def diagnostics(self, sections: Collection[str] | None = None) -> list[Diagnostic]:
        """Return what YAML lets pass and no user can have meant, in the whole document or in ``sections`` only."""
        nodes = [self.root] if sections is None else [n for key, n in self.sections().items() if key in sections]
        problems = (problem for node in nodes for problem in _problems(node, (), set()))
        return list(dict.fromkeys(problem.at(Position(str(self.path), problem.line)) for problem in problems))


@dataclass(frozen=True)
class Document(Outline):
    """One YAML file: its data, and the lines of its parts."""

    data: Any
    merges: tuple[int, ...] = ()
    """Lines of merge keys, which not every reader of YAML knows."""


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark; InputError when it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise InputError(f"the file is larger than {_MOST_BYTES // 1024**2} MiB", source=path, code="too-large")
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise InputError("file not found", source=path, code="file-not-found") from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", source=path, code="file-unreadable") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path, code="file-unreadable") from None
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            line = error.object[: error.start].count(b"\n") + 1
            raise InputError("this is not UTF-8 text", source=path, line=line, code="encoding") from None
        # A path that holds a NUL.
        raise InputError("this is not the name of a file", source=repr(str(path)), code="file-not-found") from None


def read_document(path: Path) -> Document:
    """Return the one YAML document of a file; InputError has a diagnostic for every problem of the text."""
    with _open(path) as loader:
        root = loader.get_single_node()
        if root is None:
            raise InputError("the document is empty", source=path, code="empty-document")
        if diagnostics := Outline(path, root).diagnostics():
            raise InputError(diagnostics)
        if _size(root, {}) > _MOST:
            text = f"the document holds more than {_MOST} values once its aliases are expanded"
            raise InputError(text, source=path, code="too-large")
        merges = tuple(sorted(_merges(root, set())))  # they are gone once the document is constructed
        return Document(path, root, _plain(path, loader.construct_document(root)), merges)


def read_outline(path: Path) -> Outline | None:
    """Return the outline of a file, whose tags may be anybody's; None when it is empty or no YAML that can be read."""
    try:
        with _open(path) as loader:
            root = loader.get_single_node()
    except InputError:
        return None
    return None if root is None else Outline(path, root)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    text = read_text(path)
    if path.suffix == ".json":  # where YAML has no place for a tab, JSON has
        text = _SURROGATES.sub(_character, text.replace("\t", " "))
    try:
        _check_depth(path, text)
        loader = _Loader(text)
        try:
            yield loader
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        if _LIBYAML_DEEP in str(error):
            raise _too_deep(path, getattr(error, "problem_mark", None)) from None
        raise InputError(_syntax(path, text, error)) from None
    except ValueError as error:  # a date such as 2026-02-30
        raise InputError(f"not valid YAML: {error}", source=path, code="yaml-syntax") from None


def _character(match: re.Match[str]) -> str:
    """Return the character that a pair of surrogates stands for."""
    units = bytes.fromhex(match["high"] + match["low"])
    return match["before"] + units.decode("utf-16-be")


def _plain(path: Path, data: Any) -> Any:
    try:
        return plain(data)
    except InputError as error:
        raise error.mapped(lambda diagnostic: diagnostic.at(Position(str(path)))) from None


def _check_depth(path: Path, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _too_deep(path, event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(path: Path, mark: Any) -> InputError:
    text = f"the document is nested deeper than {_DEEPEST} levels"
    return InputError(text, source=path, line=mark.line + 1 if mark else 1, code="too-large")


def _problem(line: int, code: str, text: str, hint: str = "") -> Diagnostic:
    return Diagnostic(text, code, line=line, hint_text=hint)


def _problems(node: yaml.Node, parents: tuple[int, ...], seen: set[int]) -> Iterator[Diagnostic]:
    """Yield what YAML lets pass and a user cannot have meant."""
    line = node.start_mark.line + 1
    if id(node) in parents:
        yield _problem(line, "recursive-value", "the value contains itself")
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield from _problems_of_keys(node)
        for _, value in node.value:
            yield from _problems(value, (*parents, id(node)), seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _problems(item, (*parents, id(node)), seen)
    elif isinstance(node, yaml.ScalarNode) and _is_number(node) and len(node.value) > _MOST_DIGITS:
        text = f"a number has {len(node.value)} characters, at most {_MOST_DIGITS} are supported"
        yield _problem(line, "out-of-range", text, "write text in quotes")
    elif isinstance(node, yaml.ScalarNode) and not node.style and _is_ambiguous(node):
        number = yaml.constructor.SafeConstructor().construct_object(node)
        text = f"{node.value} is the number {number} in YAML"
        yield _problem(line, "ambiguous-number", text, f"write that number, or '{node.value}' in quotes")


def _is_number(node: yaml.ScalarNode) -> bool:
    return node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def _is_ambiguous(node: yaml.ScalarNode) -> bool:
    """Tell whether YAML 1.1 reads octal, as in 010, or base 60, as in 90:00, where nobody sees it.

    1:30:00 is the same in base 60 as in hours, minutes and seconds.
    """
    if node.tag == "tag:yaml.org,2002:float":
        return ":" in node.value
    return node.tag == "tag:yaml.org,2002:int" and (
        node.value.count(":") not in (0, 2) or re.match(r"[-+]?0[0-7_]", node.value) is not None
    )


def _merges(node: yaml.Node, seen: set[int]) -> Iterator[int]:
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    for part in node.value:
        key, value = part if isinstance(part, tuple) else (None, part)
        if key is not None and key.tag == "tag:yaml.org,2002:merge":
            yield key.start_mark.line + 1
        yield from _merges(value, seen)


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values ``node`` holds when its aliases are expanded."""
    if id(node) not in sizes:
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        items = (item for part in parts for item in (part if isinstance(part, tuple) else (part,)))
        sizes[id(node)] = 1 + sum(_size(item, sizes) for item in items)
    return sizes[id(node)]


def _problems_of_keys(node: yaml.MappingNode) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            yield _problem(line, "invalid-key", "a key must be text, not a list or mapping")
        elif key.tag == "tag:yaml.org,2002:merge":
            continue
        elif key.tag != "tag:yaml.org,2002:str":
            text = f"the key {key.value or 'null'} is not text in YAML"
            yield _problem(line, "invalid-key", text, "write it in quotes")
        elif key.value in seen:
            text = f"the key '{key.value}' is given twice, first in line {seen[key.value]}"
            yield _problem(line, "duplicate-key", text)
        else:
            seen[key.value] = line


def _syntax(path: Path, text: str, error: yaml.YAMLError) -> Diagnostic:
    if isinstance(error, yaml.reader.ReaderError):
        code = error.character if isinstance(error.character, int) else ord(error.character)
        at = text.find(chr(code))
        line = text.count("\n", 0, at) + 1 if at >= 0 else None
        problem = f"the character U+{code:04X} is not allowed in YAML"
        return Diagnostic(problem, "yaml-syntax", source=str(path), line=line)
    mark = getattr(error, "problem_mark", None)
    line, hint = mark.line if mark else 0, ""
    problem = str(getattr(error, "problem", None) or error)
    if mark and "cannot start any token" in problem and text.splitlines()[line][mark.column :].startswith("\t"):
        problem, hint = "a tab cannot indent YAML", "use blanks"
    elif "expected a single document" in str(error):
        problem, hint = "the file holds a second document", "write one document in a file"
    elif match := re.search(r"could not determine a constructor for the tag '(.+)'", problem):
        problem = f"the tag {match[1]} is not supported"
    else:
        problem = f"not valid YAML: {problem}"
    return Diagnostic(problem, "yaml-syntax", source=str(path), line=line + 1, hint_text=hint)


def _line(node: yaml.Node | None, location: Location) -> int:
    line = node.start_mark.line + 1 if node is not None else 1
    for part in location:
        step = _step(node, part)
        if step is None:
            break
        line, node = step
    return line


def _step(node: yaml.Node | None, part: int | str) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of one key or item."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == part:
                return key.start_mark.line + 1, value
        merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
        for value in merged:
            for candidate in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if (step := _step(candidate, part)) is not None:
                    return step
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item.start_mark.line + 1, item
    return None
