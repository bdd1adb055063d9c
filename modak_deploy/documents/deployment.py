"""The document of a deployment: from files, or from the variables of somebody else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from modak_deploy.diagnostics import Diagnostic, Locate, Location, Position
from modak_deploy.documents.plain import plain
from modak_deploy.documents.reading import Document, read_document
from modak_deploy.documents.sites import Expanded, expand
from modak_deploy.documents.validation import check
from modak_deploy.errors import InputError
from modak_deploy.model.base import Line, Model, NonNegative
from modak_deploy.model.deployment import Deployment, Destination


class PlaybookOptions(Model):
    """What steers the playbooks and is not part of the Plan; extra variables override what a document says."""

    force: bool = False
    """Plan again and run again although nothing has changed."""
    record: bool | None = None
    """Add what the completed job took to the user's measurements; where nothing is said, what it has tried, and what it
    took as a whole where it ran undisturbed."""
    wait: bool = True
    """Wait for the end of the job and fetch its results."""
    timeout_seconds: NonNegative = 0
    """Longest time to wait in seconds; no limit when 0."""
    results: Line = "results"
    """Folder on the controller for the results."""
    search_paths: list[Line] = []
    """Folders in which relative paths are looked for first."""


class RunOptions(PlaybookOptions):
    """The playbooks' options, with what no document may set."""

    secret_commands: bool = False
    """Run the commands on the controller that ``secret_environment`` names."""


class _File(Deployment, PlaybookOptions):
    """All that a deployment document may hold."""


@dataclass(frozen=True)
class Description:
    """What deployment documents say, with the file and line of everything in them."""

    documents: Sequence[Document]
    data: Mapping[str, Any]
    """Top-level keys of all documents; a later document replaces a key of an earlier one as a whole."""

    @property
    def origin(self) -> str:
        """Return the name of the first document."""
        return str(self.documents[0].path)

    @cached_property
    def expanded(self) -> Expanded:
        """The data with the settings of the sites that its targets name."""
        return expand(self.data, self._locate, self.origin)

    def locate(self, location: Location) -> Position:
        """Return file and line of the deepest part that ``location`` reaches, in a site's file where that has it."""
        return self.expanded.locating(self._locate)(location) or self._locate(location)

    def _locate(self, location: Location) -> Position:
        holders = [document for document in self.documents if location and location[0] in document.data]
        return (holders or self.documents)[-1].locate(location)

    def parse(self, changes: Mapping[str, Any] | None = None) -> tuple[Deployment, PlaybookOptions]:
        """Return what is described, with ``changes`` in place of keys of the documents.

        InputError has one diagnostic for every problem.
        """
        file = check(_File, {**self.expanded.data, **(changes or {})}, origin=self.origin, locate=self.locate)
        return (
            Deployment(**{name: getattr(file, name) for name in Deployment.model_fields}),
            PlaybookOptions(**{name: getattr(file, name) for name in PlaybookOptions.model_fields}),
        )


def read_description(path: Path, *more: Path) -> Description:
    """Read deployment documents as data: nothing in them is a template, and later ones replace whole sections."""
    documents = [read_document(file) for file in (path, *more)]
    for document in documents:
        _check_mapping(document.data, str(document.path))
    return Description(documents, {key: value for document in documents for key, value in document.data.items()})


def load_deployment(path: Path, *more: Path) -> Deployment:
    """Return the deployment that YAML files describe; InputError has one diagnostic for every problem.

    A section in a later file replaces the one before as a whole, as Ansible's extra variables do. The playbook's own
    variables (see ``PlaybookOptions``) may stand in the files as well.
    """
    return read_description(path, *more).parse()[0]


def parse_options(variables: Mapping[str, Any], documents: PlaybookOptions | None = None) -> RunOptions:
    """Return the playbook's options: ``variables`` that are not None override what the ``documents`` say.

    ``-e key=value`` makes text of everything, so that text which spells a boolean or a whole number is one here.
    Anything else is an InputError: Ansible's filter ``bool`` takes 'maybe' as false, and ``int`` takes 'abc' as 0.
    """
    given = {key: _typed(key, plain(value)) for key, value in variables.items() if value is not None}
    base = (documents or PlaybookOptions()).model_dump()
    return check(RunOptions, {**base, **given}, origin="the extra variables")


_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def _typed(key: str, value: Any) -> Any:
    field = RunOptions.model_fields.get(key)
    if field is None or not isinstance(value, str):
        return value
    text = value.strip().lower()
    if bool in (field.annotation, *get_args(field.annotation)) and text in _TRUE | _FALSE:
        return text in _TRUE
    if key == "timeout_seconds" and text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 10:
        return int(text)
    return [part for part in value.split(",") if part] if key == "search_paths" else value


def parse_deployment(data: Mapping[str, Any], *, origin: str, locate: Locate | None = None) -> Deployment:
    """Return the deployment that ``data``, of whatever mapping types, describes; InputError has every problem.

    A problem is at the position that ``locate`` returns for it, or in ``origin``.
    """
    values = _plain(data, origin)
    _check_mapping(values, origin)
    expanded = expand(values, locate, origin)
    return check(Deployment, expanded.data, origin=origin, locate=expanded.locating(locate))


def parse_destination(data: Mapping[str, Any], *, origin: str, locate: Locate | None = None) -> Destination:
    """Return where something is brought to that is no application; see ``parse_deployment``."""
    values = _plain(data, origin)
    expanded = expand(values, locate, origin)
    # A destination has no request, so that the catalogue of a site is not for it.
    sections = {k: v for k, v in expanded.data.items() if k != "request" or k in values}
    return check(Destination, sections, origin=origin, locate=expanded.locating(locate))


def _plain(data: Any, origin: str) -> Any:
    def in_origin(diagnostic: Diagnostic) -> Diagnostic:
        return diagnostic.at(Position(origin))

    try:
        return plain(data)
    except InputError as error:
        raise error.mapped(in_origin) from None


def _check_mapping(data: Any, origin: str) -> None:
    if data in (None, {}):
        raise InputError("the document is empty", source=origin, code="empty-document")
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        text = f"the document must be a mapping with the key 'application', not {kind}"
        raise InputError(text, source=origin, code="wrong-type")
    if "tosca_definitions_version" in data:
        hint = f"deploy it by an orchestrator, such as: opera deploy {origin}"
        raise InputError("this is a blueprint, and no document of a deployment", source=origin, hint=hint)
