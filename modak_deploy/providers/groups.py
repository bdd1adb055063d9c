"""The security group of an instance: nothing is open that was not asked for."""

from collections.abc import Sequence

from modak_deploy.model.cloud import Cloud
from modak_deploy.providers.resources import Group, Identity, Rule


def group_for(cloud: Cloud, identity: Identity) -> Group:
    """Return the group that opens SSH to ``access`` and each port of ``ports`` to its own sources."""
    rules = [Rule(protocol="tcp", first=22, last=22, sources=cloud.access)] if cloud.access else []
    for port in cloud.ports:
        sources = port.sources or cloud.access
        if sources:
            last = port.last if port.last is not None else port.port
            rules.append(Rule(protocol=port.protocol, first=port.port, last=last, sources=sources))
    return Group(name=identity, description="modak: what one deployment opens", rules=_distinct(rules))


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules without what an earlier one opens: neutron refuses a group that is asked for the same twice."""
    covered: set[tuple[str, int, int, str]] = set()
    distinct: list[Rule] = []
    for rule in rules:
        opened = [(rule.protocol, rule.first, rule.last, source) for source in dict.fromkeys(rule.sources)]
        new = [entry for entry in opened if entry not in covered]
        covered.update(new)
        if new:
            distinct.append(rule.model_copy(update={"sources": [source for *_, source in new]}))
    return distinct
