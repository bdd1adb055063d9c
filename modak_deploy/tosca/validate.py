"""Checking a blueprint before anything runs: all faults at once, each with its file, line, node and property."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy.diagnostics import Diagnostic, dotted
from modak_deploy.documents.reading import read_document
from modak_deploy.errors import InputError
from modak_deploy.tosca.deployments import check_deployments
from modak_deploy.tosca.nodes import check_templates
from modak_deploy.tosca.portability import check_portability
from modak_deploy.tosca.profiles import Profile, is_error
from modak_deploy.tosca.rules import check_rules
from modak_deploy.tosca.second import second_opinion
from modak_deploy.tosca.sections import check_structure, check_topology
from modak_deploy.tosca.service import Service, load
from modak_deploy.tosca.sodalite_check import check_jobs
from modak_deploy.tosca.typedefs import check_types


@dataclass(frozen=True)
class Findings:
    """The errors of a blueprint, and what other tools reject."""

    errors: list[Diagnostic]
    notes: list[Diagnostic]
    """What the tool that it is judged for accepts and another one rejects."""
    service: Service
    """The blueprint as it was read."""


def validate(path: Path, inputs: Mapping[str, Any] | None = None, profile: Profile = "opera") -> list[Diagnostic]:
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
    diagnostics = [*service.faults, *check_structure(service)]
    if service.is_whole:
        diagnostics += [*check_types(service), *check_topology(service, inputs), *check_templates(service)]
        diagnostics += check_portability(service)
    if not _errors(diagnostics, profile):
        diagnostics += [
            *check_deployments(service, inputs or {}),
            *check_jobs(service, inputs or {}),
            *check_rules(service, inputs or {}),
        ]
    if profile in ("tosca-parser", "all") and not _errors(diagnostics, profile):
        diagnostics += second_opinion(service, inputs)
    ordered = sorted(set(diagnostics), key=lambda diagnostic: _order(diagnostic, path))
    errors = _errors(ordered, profile)
    rejected = set(errors)
    return Findings(errors, [diagnostic for diagnostic in ordered if diagnostic not in rejected], service)


def _order(diagnostic: Diagnostic, path: Path) -> tuple[bool, str, int, str, str]:
    """Return what imported files sort before the blueprint ``path`` by, and each by its lines."""
    is_own = diagnostic.source == str(path)
    return is_own, diagnostic.source, diagnostic.line or 0, dotted(diagnostic.path), diagnostic.message


def _errors(diagnostics: Iterable[Diagnostic], profile: Profile) -> list[Diagnostic]:
    return [diagnostic for diagnostic in diagnostics if is_error(diagnostic.rejected_by, profile)]


def read_inputs(path: Path) -> dict[str, Any]:
    """Return the values in a YAML or JSON file of inputs; InputError when it is no mapping."""
    data = read_document(path).data
    if not isinstance(data, dict):
        raise InputError("a file of inputs must be a mapping of names to values", source=path)
    return data
