"""Policies that are rules for jobs: what a job asks for must keep to those that name it."""

from collections.abc import Iterator, Mapping
from typing import Any

from modak_deploy.diagnostics import Diagnostic, Location
from modak_deploy.errors import InputError
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.tosca.deployments import Resolver, jobs
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.service import Service
from modak_deploy.tosca.translate import documents
from modak_deploy.tosca.values import is_function

OPTIMISATION, SCALING = "modak.policies.Optimisation", "modak.policies.Scaling"


def check_rules(service: Service, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Check every job that a policy names, directly or by a group, against the policy."""
    resolver = Resolver(service, inputs)
    job_templates = {template.name: template for template, _ in jobs(service)}
    for item in service.root.below("topology_template", "policies"):
        policy = item.at(next(iter(item.value)))
        rule = _rule(service, policy)
        if rule is None:
            continue
        given = _given(service, resolver, policy)
        for job in (job_templates[name] for name in _targets(service, policy) if name in job_templates):
            open_parts = list(_open_parts(resolver, job))
            for diagnostic in rule(policy.name, given, job, _asked(resolver, job)):
                if not any(diagnostic.path[: len(part)] == part for part in open_parts):
                    yield diagnostic


def _open_parts(resolver: Resolver, job: SourceLocation) -> Iterator[Location]:
    """Yield the keys of a job's request and options whose values only an input, or a deployment, will tell."""
    for section in ("request", "job"):
        given = job.get("properties")
        element = given.get(section) if given else None
        if element is None:
            continue
        for part in [element] if is_function(element.value) else element.items():
            if any(resolver.unknown(part, job.name)):
                yield part.path


def _rule(service: Service, policy: SourceLocation) -> Any:
    kind = policy.value.get("type")
    for name, rule in ((OPTIMISATION, _optimisation), (SCALING, _scaling)):
        if service.types.derives("policy_types", kind, name):
            return rule
    return None


def _targets(service: Service, policy: SourceLocation) -> Iterator[str]:
    groups = {g.name: g.value.get("members") or [] for g in service.root.below("topology_template", "groups")}
    for name in policy.value.get("targets") or []:
        yield from groups.get(name, [name])


def _given(service: Service, resolver: Resolver, policy: SourceLocation) -> dict[str, Any]:
    definitions = service.types.collected(service.types.find("policy_types", policy.value["type"]), "properties")
    given = {name: definition.get("default") for name, definition in definitions.items()}
    given |= {name: resolver.value(value, None) for name, value in (policy.value.get("properties") or {}).items()}
    return {name: value for name, value in given.items() if isinstance(value, str | int | float) and value}


def _asked(resolver: Resolver, job: SourceLocation) -> dict[str, Any]:
    """Return what a job asks for, with the defaults; nothing where that is a fault of its own."""
    properties = resolver.properties(job)
    try:
        sections = documents({}, {}, properties.get("request"), properties.get("job"))
    except InputError:
        return {}
    defaults = {name: field.default for model in (Request, JobOptions) for name, field in model.model_fields.items()}
    return {**defaults, **sections["request"], **sections["job"]}


def _at(job: SourceLocation, section: str, key: str) -> SourceLocation:
    """Return the place of a key in a job's request or options; as much of it as is there."""
    element = job
    for part in ("properties", section, key):
        if not isinstance(element.value, dict) or part not in element.value:
            break
        element = element.at(part)
    return element


def _optimisation(
    name: str, rule: Mapping[str, Any], job: SourceLocation, asked: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    wanted = rule.get("objective")
    if wanted and asked.get("objective") != wanted:
        text = f"the objective is {asked.get('objective')}, and the policy '{name}' requires {wanted}"
        yield _at(job, "request", "objective").diagnostic(text)
    if rule.get("numerics") == "exact" and asked.get("numerics") == "relaxed":
        yield _at(job, "request", "numerics").diagnostic(
            f"numerics are relaxed, and the policy '{name}' requires exact ones"
        )
    most, budget = rule.get("budget"), asked.get("budget")
    if most and (budget is None or budget > most):
        text = "there is no budget" if budget is None else f"the budget is {budget:g}"
        yield _at(job, "request", "budget").diagnostic(f"{text}, and the policy '{name}' permits {most:g} at most")


def _scaling(name: str, rule: Mapping[str, Any], job: SourceLocation, asked: Mapping[str, Any]) -> Iterator[Diagnostic]:
    nodes = asked.get("nodes") or 1
    low, high = rule.get("minimum_nodes", 1), rule.get("maximum_nodes")
    if nodes < low or (high and nodes > high):
        limits = f"{low} to {high}" if high else f"at least {low}"
        count = f"{nodes} nodes are" if nodes > 1 else "1 node is"
        yield _at(job, "job", "nodes").diagnostic(f"{count} requested, but the policy '{name}' requires {limits}")
    efficiency = rule.get("minimal_efficiency")
    if efficiency and (asked.get("minimal_efficiency") or 0) < efficiency:
        text = f"the policy '{name}' requires a parallel efficiency of at least {efficiency:g}"
        yield _at(job, "request", "minimal_efficiency").diagnostic(text)
