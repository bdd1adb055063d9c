"""The document of a deployment: from a file, or from the variables of somebody else."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modak.documents.faults import check
from modak.documents.plain import plain
from modak.documents.reading import Document, Locate, Location, read_document
from modak.errors import InputError, OptionError
from modak.model.base import Line
from modak.model.deployment import Deployment, Place


class _File(Deployment):
    """A deployment file: what is to be planned, and what steers the playbook deploy and means nothing to a plan."""

    force: bool = False
    results: Line | None = None
    wait: bool = True
    timeout_seconds: int = 0
    search_paths: list[Line] = []


def load_deployment(path: Path, *more: Path) -> Deployment:
    """Return the deployment that YAML files describe; InputError has one line ``file:line: ...`` for every fault.

    A section in a later file replaces the one before as a whole, as Ansible's extra variables do. The playbook's own
    variables (force, results, wait, timeout_seconds, search_paths) may stand in the files as well.
    """
    documents = [read_document(file) for file in (path, *more)]
    for document in documents:
        _check_mapping(document.data, str(document.path))
    data = {key: value for document in documents for key, value in document.data.items()}
    locate = _locator(documents)
    file = check(_File, data, origin=str(path), locate=locate)
    return Deployment(**{name: getattr(file, name) for name in Deployment.model_fields})


def located(error: OptionError, *paths: Path) -> InputError:
    """Return an error on an option of the job with the file and the line that give it."""
    where = _locator([read_document(path) for path in paths])(tuple(error.key.split(".")))
    return InputError(f"{where}: {error.key}: {error.problem}")


def _locator(documents: Sequence[Document]) -> Callable[[Location], str]:
    """Return the function from a place to the file and the line of it, in the last document that has its section."""

    def locate(location: Location) -> str:
        holders = [document for document in documents if location and location[0] in document.data]
        return (holders or documents)[-1].locate(location)

    return locate


def parse_deployment(data: Mapping[str, Any], *, origin: str, locate: Locate | None = None) -> Deployment:
    """Return the deployment that ``data``, of whatever mapping types, describes; InputError tells every fault.

    A fault's line starts with what ``locate`` says of its place, or with ``origin``.
    """
    try:
        values = plain(data)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    _check_mapping(values, origin)
    return check(Deployment, values, origin=origin, locate=locate)


def parse_place(data: Mapping[str, Any], *, origin: str, locate: Locate | None = None) -> Place:
    """Return where something is brought to that is no application; see ``parse_deployment``."""
    try:
        values = plain(data)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    return check(Place, values, origin=origin, locate=locate)


def _check_mapping(data: Any, origin: str) -> None:
    if data in (None, {}):
        raise InputError(f"{origin}: the document is empty")
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise InputError(f"{origin}: the document must be a mapping with the key 'application', not {kind}")
