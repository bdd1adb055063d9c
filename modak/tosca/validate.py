"""Checking a blueprint before anything runs: all faults at once, each with its file, line, node and property."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak.documents.reading import read_document
from modak.errors import InputError
from modak.tosca.deployments import check_deployments
from modak.tosca.nodes import check_templates
from modak.tosca.portability import check_portability
from modak.tosca.profiles import Profile, is_error
from modak.tosca.rules import check_rules
from modak.tosca.second import second_opinion
from modak.tosca.sections import check_structure, check_topology
from modak.tosca.service import load
from modak.tosca.sodalite_check import check_jobs
from modak.tosca.spot import Fault
from modak.tosca.typedefs import check_types


@dataclass(frozen=True)
class Findings:
    """What is wrong with a blueprint, and what other tools reject."""

    errors: list[Fault]
    notes: list[Fault]
    """What the tool that it is judged for accepts and another one rejects."""


def validate(path: Path, inputs: Mapping[str, Any] | None = None, profile: Profile = "opera") -> list[Fault]:
    """Return the errors of a blueprint for an orchestrator or parser; an empty list when there are none.

    ``inputs`` are the values of a file of inputs. Without one, inputs without default are assumed to be right.
    InputError: a file is missing or is not valid YAML.
    """
    return examine(path, inputs, profile).errors


def examine(path: Path, inputs: Mapping[str, Any] | None = None, profile: Profile = "opera") -> Findings:
    """Return the errors and portability notes of a blueprint.

    Those of imported files come first, because they cause others, then those of the blueprint, each by line.
    """
    service = load(path)
    faults = [*service.faults, *check_structure(service)]
    if service.is_whole:
        faults += [*check_types(service), *check_topology(service, inputs), *check_templates(service)]
        faults += check_portability(service)
    if not _errors(faults, profile):
        faults += [
            *check_deployments(service, inputs or {}),
            *check_jobs(service, inputs or {}),
            *check_rules(service, inputs or {}),
        ]
    if profile in ("tosca-parser", "all") and not _errors(faults, profile):
        faults += second_opinion(service, inputs)
    ordered = sorted(set(faults), key=lambda fault: (fault.file == str(path), fault))
    errors = _errors(ordered, profile)
    return Findings(errors, [fault for fault in ordered if fault not in errors])


def _errors(faults: Iterable[Fault], profile: Profile) -> list[Fault]:
    return [fault for fault in faults if is_error(fault.tools, profile)]


def read_inputs(path: Path) -> dict[str, Any]:
    """Return the values in a YAML or JSON file of inputs; InputError when it is no mapping."""
    data = read_document(path).data
    if not isinstance(data, dict):
        raise InputError(f"{path}: a file of inputs must be a mapping of names to values")
    return data
