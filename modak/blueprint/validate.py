"""Checking a blueprint before anything runs: all faults at once, each with its file, line, node and property."""

import contextlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modak.blueprint.deployments import check_deployments
from modak.blueprint.nodes import check_templates
from modak.blueprint.rules import check_rules
from modak.blueprint.sections import check_structure, check_topology
from modak.blueprint.service import Service, load
from modak.blueprint.sodalite_check import check_jobs
from modak.blueprint.spot import Fault
from modak.blueprint.typedefs import check_types
from modak.documents.reading import read_document
from modak.errors import InputError


def validate(path: Path, inputs: Mapping[str, Any] | None = None) -> list[Fault]:
    """Return what is wrong with a blueprint, in the order of its lines; an empty list when nothing is.

    ``inputs`` are the values of a file of inputs. Without one, inputs without default are taken to be right. InputError
    tells that a file is missing or no YAML.
    """
    service = load(path)
    faults = [*service.faults, *check_structure(service)]
    if service.is_whole:
        faults += [*check_types(service), *check_topology(service, inputs), *check_templates(service)]
    if not faults:
        faults = [
            *check_deployments(service, inputs or {}),
            *check_jobs(service, inputs or {}),
            *check_rules(service, inputs or {}),
        ]
    if not faults:
        faults = _second_opinion(service, inputs)
    return sorted(set(faults), key=lambda fault: (fault.file != str(path), fault))


def read_inputs(path: Path) -> dict[str, Any]:
    """Return the values in a YAML or JSON file of inputs; InputError when it is no mapping."""
    data = read_document(path).data
    if not isinstance(data, dict):
        raise InputError(f"{path}: a file of inputs must be a mapping of names to values")
    return data


def _second_opinion(service: Service, inputs: Mapping[str, Any] | None) -> list[Fault]:
    """Return what tosca-parser finds, which has no line."""
    from toscaparser.tosca_template import ToscaTemplate  # type: ignore[import-untyped]

    path = service.root.document.path
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ToscaTemplate(str(path.absolute()), parsed_params=dict(inputs or {}))
    except Exception as error:  # it raises whatever its code happens to stumble over
        reason = re.sub(r"^The input .* error\(s\):|\bFile \S+, line .*", "", " ".join(str(error).split())).strip()
        return [service.root.fault(f"tosca-parser refuses it: {reason}")]
    return []
