"""Checks of operations: the files that carry them out, what they are told, and what they hand over."""

from collections.abc import Collection, Iterator

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.references import Scope, calls_in
from modak_deploy.tosca.service import Service, inside
from modak_deploy.util.text import did_you_mean

_HOSTS = ("SELF", "HOST", "ORCHESTRATOR", "SOURCE", "TARGET")


def implementation_files(operation: SourceLocation) -> Iterator[SourceLocation]:
    """Yield the files that carry out an operation: its primary and its dependencies."""
    given = operation.get("implementation") if isinstance(operation.value, dict) else operation
    if given is None:
        return
    if isinstance(given.value, str):
        yield given
        return
    primary = given.get("primary")
    for element in [*([primary] if primary else []), *given.below("dependencies")]:
        file = element.get("file") if isinstance(element.value, dict) else element
        if file:
            yield file


def check_implementation(service: Service, operation: SourceLocation) -> Iterator[Diagnostic]:
    """Check that the files that carry out an operation are there."""
    for file in implementation_files(operation):
        _, problem = inside(file.document.path.parent, file.value, service.folder)
        if problem:
            yield file.diagnostic(f"the playbook '{file.value}' {problem}")
    if isinstance(operation.value, dict) and (host := next(_hosts(operation), None)):
        yield host.diagnostic(f"must be one of {', '.join(_HOSTS)}, not {shown(host.value)}", code="wrong-type")


def _hosts(operation: SourceLocation) -> Iterator[SourceLocation]:
    yield from (
        element
        for element in operation.below("implementation")
        if element.name == "operation_host" and element.value not in _HOSTS
    )


def check_declared(service: Service, operation: SourceLocation, scope: Scope) -> Iterator[Diagnostic]:
    """Check an operation of a type: its files, the functions in its inputs, the attributes that its outputs go to."""
    yield from check_implementation(service, operation)
    yield from check_calls(operation, scope)
    for output in operation.below("outputs"):
        yield from scope.attribute(output)


def check_assigned(
    service: Service, operation: SourceLocation, inputs: Collection[str], scope: Scope
) -> Iterator[Diagnostic]:
    """Check an operation of a node template, whose type declares its ``inputs``."""
    yield from check_implementation(service, operation)
    yield from check_calls(operation, scope)
    for element in operation.below("inputs"):
        if element.name not in inputs:
            yield element.diagnostic("the type declares no such input", hint=did_you_mean(element.name, list(inputs)))


def check_calls(holder: SourceLocation, scope: Scope) -> Iterator[Diagnostic]:
    """Check the functions in the inputs of an interface or operation."""
    for element in holder.below("inputs"):
        for call in calls_in(element):
            yield from scope(call, "")
