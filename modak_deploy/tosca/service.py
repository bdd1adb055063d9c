"""A blueprint with everything that it imports, and the types that it knows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.reading import Document, read_document
from modak_deploy.documents.validation import shown
from modak_deploy.errors import InputError
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import OPERA, PORTABLE, TOSCA_PARSER
from modak_deploy.tosca.shapes import check_shape
from modak_deploy.util.text import nearest

VERSION = "tosca_simple_yaml_1_3"
KINDS = {
    "artifact_types": "artifact type",
    "capability_types": "capability type",
    "data_types": "data type",
    "group_types": "group type",
    "interface_types": "interface type",
    "node_types": "node type",
    "policy_types": "policy type",
    "relationship_types": "relationship type",
}
"""Sections that define types, and what one is called."""
_PREFIXES = {
    "tosca.artifacts.": "artifact_types",
    "tosca.capabilities.": "capability_types",
    "tosca.datatypes.": "data_types",
    "tosca.groups.": "group_types",
    "tosca.interfaces.": "interface_types",
    "tosca.nodes.": "node_types",
    "tosca.policies.": "policy_types",
    "tosca.relationships.": "relationship_types",
}
_OLDER = Path(__file__).parent / "data" / "sodalite-older.yaml"
_NORMATIVE = Path(__file__).parent / "data" / "normative.yaml"
_UNKNOWN_TO_OPERA = frozenset(
    (
        "tosca.artifacts.Deployment.Image.Container.Docker", "tosca.artifacts.Deployment.Image.VM.ISO",
        "tosca.artifacts.Deployment.Image.VM.QCOW2", "tosca.artifacts.template.Jinja2",
        "tosca.artifacts.template.Twig", "tosca.capabilities.Container.Docker", "tosca.nodes.BlockStorage",
        "tosca.nodes.Container.Application.Docker", "tosca.nodes.ObjectStorage", "tosca.nodes.network.FloatingIP",
        "tosca.policies.Monitoring", "tosca.policies.Reservation",
    )
)  # fmt: skip
"""Types that tosca-parser 2.15.0 has and opera-tosca-parser 0.2.2 has not (its stdlib/v_1_3.yaml)."""


@dataclass(frozen=True)
class Type:
    """One type definition; ``spot`` is None for a type of the standard."""

    name: str
    kind: str
    definition: Mapping[str, Any]
    element: SourceLocation | None = None
    unknown_to: tuple[str, ...] = ()
    """The tools whose copy of the standard lacks it."""


@cache
def _standard() -> Mapping[tuple[str, str], Type]:
    from toscaparser.elements.entity_type import EntityType  # type: ignore[import-untyped]

    sections: dict[str, dict[str, Any]] = yaml.safe_load(_NORMATIVE.read_text())
    available = {**EntityType.TOSCA_DEF, **{name: t for types in sections.values() for name, t in types.items()}}
    matches = {}
    for name, definition in available.items():
        kind = next((k for prefix, k in _PREFIXES.items() if name.startswith(prefix)), None)
        if kind:
            # It overlooks a capability type that it does not know.
            lacks = kind in ("node_types", "data_types") and name not in EntityType.TOSCA_DEF
            unknown_to = TOSCA_PARSER if lacks else OPERA if name in _UNKNOWN_TO_OPERA else ()
            matches[kind, name] = Type(name, kind, definition or {}, unknown_to=unknown_to)
    return matches


_NO_MERGE = "is a key like any other to xOpera: write the merged keys out"
_NO_CYCLES = ("tosca-parser", "unfurl", "puccini")
"""The tools that do not end, or fail, where files import each other."""
_OPERATIONS = ("create", "configure", "start", "stop", "delete")


@cache
def _older() -> Sequence[tuple[str, str]]:
    entries: list[dict[str, str]] = yaml.safe_load(_OLDER.read_text())
    return [(entry["types"], entry["instead"]) for entry in entries]


def _instead_of(name: str) -> str | None:
    """Return what to use instead of a node type of SODALITE's that is not supported; None for any other name."""
    return next((instead for types, instead in _older() if re.fullmatch(types, name)), None)


class Types:
    """All types that a blueprint may name: the standard's, and those that it defines or imports."""

    def __init__(self, own: Mapping[tuple[str, str], Type]) -> None:
        self._types = {**_standard(), **own}
        self._lineages: dict[tuple[str, str], list[Type]] = {}
        self._collected: dict[tuple[str, str, str], Mapping[str, Any]] = {}

    def find(self, kind: str, name: Any) -> Type | None:
        """Return the type of this kind and name; None when there is none."""
        return self._types.get((kind, name)) if isinstance(name, str) else None

    def names(self, kind: str) -> list[str]:
        """Return the names of all types of a kind, the blueprint's own first."""
        mine = [t.name for (k, _), t in self._types.items() if k == kind and t.element]
        return mine + [t.name for (k, _), t in self._types.items() if k == kind and not t.element]

    def own(self) -> Iterator[Type]:
        """Yield the types that are not of the standard."""
        yield from (t for t in self._types.values() if t.element)

    def lineage(self, matches: Type | None) -> list[Type]:
        """Return a type and those that it derives from, up to the root; it ends where a type would come twice."""
        if matches is None:
            return []
        key = (matches.kind, matches.name)
        if key not in self._lineages:
            line: list[Type] = []
            while matches is not None and matches not in line:
                line.append(matches)
                matches = self.find(matches.kind, matches.definition.get("derived_from"))
            self._lineages[key] = line
        return self._lineages[key]

    def derives(self, kind: str, name: Any, ancestor: Any) -> bool:
        """Tell whether the type ``name`` is ``ancestor`` or derives from it."""
        return any(t.name == ancestor for t in self.lineage(self.find(kind, name)))

    def collected(self, matches: Type | None, section: str) -> dict[str, Any]:
        """Return the definitions of a section, those inherited and those that override them."""
        if matches is None:
            return {}
        key = (matches.kind, matches.name, section)
        if key not in self._collected:
            self._collected[key] = self._merged(matches, section)
        return dict(self._collected[key])

    def _merged(self, matches: Type, section: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for ancestor in reversed(self.lineage(matches)):
            definitions = ancestor.definition.get(section)
            if isinstance(definitions, dict):
                merged.update(definitions)
            elif isinstance(definitions, list):
                for item in definitions:
                    merged.update(item if isinstance(item, dict) else {})
        return merged

    def operations(self, matches: Type | None) -> dict[str, dict[str, set[str]]]:
        """Return the operations of each interface of a node type, each with the names of its inputs."""
        merged: dict[str, dict[str, set[str]]] = {}
        for ancestor in self.lineage(matches):
            for name, definition in (ancestor.definition.get("interfaces") or {}).items():
                operations = merged.setdefault(name, {})
                kinds = self.lineage(self.find("interface_types", (definition or {}).get("type")))
                for part in (definition or {}, *(kind.definition for kind in kinds)):
                    standard: dict[str, Any] = {k: {} for k in _OPERATIONS if k in part}
                    for operation, body in {**standard, **(part.get("operations") or {})}.items():
                        reported = body.get("inputs") if isinstance(body, dict) else None
                        operations.setdefault(operation, set()).update(reported or {}, part.get("inputs") or {})
        return merged

    def required_inputs(self, matches: Type | None) -> dict[str, dict[str, set[str]]]:
        """Return the inputs that each operation of a type with an implementation must be given."""
        merged: dict[str, dict[str, dict[str, Any]]] = {}
        implemented: set[tuple[str, str]] = set()
        for ancestor in reversed(self.lineage(matches)):
            for name, definition in (ancestor.definition.get("interfaces") or {}).items():
                operations = merged.setdefault(name, {})
                body: Mapping[str, Any] = definition or {}
                for operation, part in (body.get("operations") or {}).items():
                    inputs = operations.setdefault(operation, {})
                    inputs.update(body.get("inputs") or {})
                    if isinstance(part, dict):
                        inputs.update(part.get("inputs") or {})
                    if isinstance(part, str) or (part or {}).get("implementation"):
                        implemented.add((name, operation))
        return {
            name: {
                operation: {key for key, input in inputs.items() if _is_unset(input)}
                for operation, inputs in operations.items()
                if (name, operation) in implemented
            }
            for name, operations in merged.items()
        }

    def is_whole(self, matches: Type) -> bool:
        """Tell whether a type derives from one of the standard, so that all that it inherits is known."""
        return self.lineage(matches)[-1].element is None

    def unknown(self, kind: str, name: Any) -> str:
        """Return the sentence for a type that does not exist."""
        if not isinstance(name, str):
            return f"the {KINDS[kind]} must be a name, not {shown(name)}"
        if kind == "node_types" and (instead := _instead_of(name)):
            if instead.startswith("import"):
                return f"there is no node type '{name}': {instead}"
            return f"the type '{name}' of SODALITE is not supported: {instead}"
        hint = nearest(name, self.names(kind))
        if not hint:
            # Long common prefixes hide what is near.
            short = {n.rpartition(".")[2].lower(): n for n in reversed(self.names(kind))}
            close = nearest(name.rpartition(".")[2], list(short))
            hint = f"; did you mean '{short[close.split(chr(39))[1]]}'?" if close else ""
        return f"{KINDS[kind]} '{name}' not found{hint}"


def _is_unset(definition: Any) -> bool:
    """Tell whether an input of an operation is required and has neither a value nor a default."""
    if not isinstance(definition, dict) or "value" in definition or "default" in definition:
        return False
    return definition.get("required", True) is not False


@dataclass
class Service:
    """A blueprint as it was read; ``faults`` are those found while reading."""

    root: SourceLocation
    types: Types
    files: list[Path]
    """The blueprint and all files that it imports, as paths below its folder."""
    faults: list[Diagnostic] = field(default_factory=list)
    is_whole: bool = True
    """All is of the right kind, all imports could be read, and there are node templates: one can look into it."""

    @property
    def folder(self) -> Path:
        """The blueprint's folder, outside which orchestrators take no file."""
        return self.root.document.path.parent

    @property
    def topology(self) -> SourceLocation | None:
        """The section topology_template."""
        return self.root.get("topology_template")

    def templates(self) -> Mapping[str, SourceLocation]:
        """Return the node templates by name."""
        return self._templates

    @cached_property
    def _templates(self) -> Mapping[str, SourceLocation]:
        return {element.name: element for element in self.root.below("topology_template", "node_templates")}

    def type_of(self, template: SourceLocation | None) -> Type | None:
        """Return the type of a node template; None when it has none that exists."""
        return self.types.find("node_types", template.value.get("type")) if template and _is_map(template) else None


def _is_map(element: SourceLocation) -> bool:
    return isinstance(element.value, dict)


def load(path: Path) -> Service:
    """Read a blueprint and what it imports; InputError when the file itself cannot be read or is no YAML mapping."""
    document = read_document(path)
    if not isinstance(document.data, dict):
        raise InputError("a blueprint must be a mapping with the key 'topology_template'", source=path)
    root = SourceLocation(document, (), document.data)
    faults: list[Diagnostic] = []
    own: dict[tuple[str, str], Type] = {}
    files: list[Path] = []
    is_whole = _read(root, path.parent, own, files, faults, ())
    return Service(root, Types(own), files, faults, is_whole)


def _read(
    root: SourceLocation,
    folder: Path,
    own: dict[tuple[str, str], Type],
    files: list[Path],
    faults: list[Diagnostic],
    above: tuple[Path, ...],
) -> bool:
    """Add a file's types and those of its imports; return whether all imports could be read.

    ``above`` are the files that import it, each by the one before.
    """
    above = (*above, root.document.path)
    files.append(root.document.path)
    shapes = list(check_shape(root))
    faults += [
        Diagnostic(f"the key << {_NO_MERGE}", source=str(root.document.path), line=line, rejected_by=OPERA)
        for line in root.document.merges
    ]
    faults += [*_header(root), *(shape.fault for shape in shapes)]
    is_whole = not any(shape.is_fatal for shape in shapes)
    _add_types(root, own, faults)
    for element in root.below("imports") if is_whole else ():
        imported = _resolve(element, folder, faults)
        if imported in above:
            sentence = f"'{imported.name}' imports this file in turn, which tosca-parser does not end"
            faults.append(element.diagnostic(sentence, tools=_NO_CYCLES, code="not-portable"))
        if imported in files:
            continue
        document = _imported(element, imported, faults) if imported else None
        if document is None or not _read(
            SourceLocation(document, (), document.data), folder, own, files, faults, above
        ):
            is_whole = False
    return is_whole


def _imported(element: SourceLocation, path: Path, faults: list[Diagnostic]) -> Document | None:
    try:
        document = read_document(path)
    except InputError as error:
        faults.append(element.diagnostic(f"the imported file cannot be read: {error}"))
        return None
    if not isinstance(document.data, dict):
        faults.append(element.diagnostic(f"the imported file '{path}' is not a mapping"))
        return None
    return document


def _add_types(root: SourceLocation, own: dict[tuple[str, str], Type], faults: list[Diagnostic]) -> None:
    for kind in KINDS:
        for element in root.below(kind):
            other = own.get((kind, element.name))
            if other and other.element and other.element.document.path != element.document.path:
                where = other.element.document.locate(other.element.location)
                faults.append(element.diagnostic(f"the {KINDS[kind]} '{element.name}' is defined in {where} already"))
            elif (kind, element.name) in _standard():
                faults.append(element.diagnostic(f"the {KINDS[kind]} '{element.name}' is one of the standard's"))
            else:
                if element.name.startswith("tosca."):
                    sentence = "names that start with 'tosca.' belong to the standard"
                    faults.append(element.diagnostic(sentence, tools=PORTABLE, code="not-portable"))
                own[kind, element.name] = Type(element.name, kind, element.value if _is_map(element) else {}, element)


def _header(root: SourceLocation) -> Iterator[Diagnostic]:
    version = root.get("tosca_definitions_version")
    if version is None:
        yield root.diagnostic(
            "the key 'tosca_definitions_version' is required", hint=f"write {VERSION}", code="missing-key"
        )
    elif version.value != VERSION:
        yield version.diagnostic(f"must be {VERSION}, not {shown(version.value)}", code="wrong-type")


def _resolve(element: SourceLocation, folder: Path, faults: list[Diagnostic]) -> Path | None:
    """Return the path of an import, in its plain form, or None with a fault added."""
    name = element.value.get("file") if isinstance(element.value, dict) else element.value
    if not isinstance(name, str):
        return None
    path, problem = inside(element.document.path.parent, name, folder)
    if problem:
        hint = "copy the library there with 'modak blueprint init'" if name.startswith("modak/") else ""
        faults.append(element.diagnostic(f"'{name}' {problem}", hint=hint, code="import"))
        return None
    return path


def inside(beside: Path, name: str, folder: Path) -> tuple[Path, str | None]:
    """Return the path of the file ``name``, without ``..``, and what forbids an orchestrator to take it, or None."""
    # In a CSAR, an absolute path begins at its root: xOpera resolves it below the blueprint's folder.
    path = folder / name.lstrip("/") if name.startswith("/") else beside / name
    if "://" in name:
        return path, "is an address, and xOpera takes files from the blueprint's folder only"
    parts: list[str] = []
    for part in path.relative_to(folder).parts if path.is_relative_to(folder) else path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    plain = folder.joinpath(*parts)
    if ".." in parts or not plain.is_relative_to(folder):
        return plain, f"lies outside the blueprint's folder {folder}, where xOpera takes nothing from"
    try:
        return plain, _problem_of(plain, folder)
    except OSError as error:  # a name of more bytes than the file system takes, a folder that may not be searched
        return plain, f"cannot be read: {error.strerror}"


def _problem_of(path: Path, folder: Path) -> str | None:
    """Return what forbids an orchestrator to take the file or folder ``path`` below ``folder``, or None."""
    if path.is_symlink():
        return "is a symbolic link, which xOpera does not take"
    if not path.exists():
        return f"not found: {path}"
    if not path.resolve().is_relative_to(folder.resolve()):
        return f"leads by a symbolic link to {path.resolve()}, outside the blueprint's folder"
    link = next((inner for inner in sorted(path.rglob("*")) if inner.is_symlink()), None) if path.is_dir() else None
    return f"holds the symbolic link {link}, which xOpera does not take" if link else None
