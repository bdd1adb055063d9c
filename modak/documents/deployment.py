"""The document of a deployment: from a file, or from the variables of somebody else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from modak.documents.faults import check
from modak.documents.plain import plain
from modak.documents.reading import Locate, read_document
from modak.errors import InputError
from modak.model.base import Line
from modak.model.deployment import Deployment

D = TypeVar("D", bound=Deployment)


class _File(Deployment):
    """A deployment file: what is to be planned, and what steers the playbook deploy and means nothing to a plan."""

    force: bool = False
    results: Line | None = None
    wait: bool = True
    timeout_seconds: int = 0
    search_paths: list[Line] = []


def load_deployment(path: Path) -> Deployment:
    """Return the deployment that a YAML file describes; InputError has one line ``file:line: ...`` for every fault.

    The playbook's own variables (force, results, wait, timeout_seconds, search_paths) may stand in the file as well.
    """
    document = read_document(path)
    file = _check(_File, document.data, str(path), document.locate)
    return Deployment(application=file.application, target=file.target, request=file.request, job=file.job)


def parse_deployment(data: Mapping[str, Any], *, origin: str, locate: Locate | None = None) -> Deployment:
    """Return the deployment that ``data``, of whatever mapping types, describes; InputError tells every fault.

    A fault's line starts with what ``locate`` says of its place, or with ``origin``.
    """
    try:
        values = plain(data)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    return _check(Deployment, values, origin, locate)


def _check(model: type[D], data: Any, origin: str, locate: Locate | None) -> D:
    if data in (None, {}):
        raise InputError(f"{origin}: the document is empty")
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise InputError(f"{origin}: the document must be a mapping with the key 'application', not {kind}")
    return check(model, data, origin=origin, locate=locate)
