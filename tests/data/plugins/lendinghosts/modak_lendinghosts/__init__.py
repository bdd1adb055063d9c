"""A provider of another distribution: its tasks are in a role of its own."""

from collections.abc import Mapping
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.model.plan import Plan
from modak_deploy.providers.base import Provider, carries, identity_of
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Identity, Instance, Listed, Listing, Resources


class LendingHosts(Provider):
    """Lends hosts."""

    name = "lendinghosts"
    role = "example.lending.hosts"
    capacity = ("AllLent",)

    def describe(self, plan: Plan, public_key: str) -> Resources:
        """See Provider."""
        identity = identity_of(plan, public_key)
        if plan.instance is None:
            raise InputError("the Plan chose no instance type; plan it again")
        instance = Instance(
            name=plan.name, type=plan.instance.chosen.name, machine_image="the only one", root_device="/dev/sda"
        )
        return Resources(
            provider=self.name, identity=identity, tags={DEPLOYMENT_TAG: identity}, instance=instance, region="here"
        )

    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """See Provider."""
        hosts = [Listed.model_validate(host) for host in raw["hosts"]]
        return Listing(instances=[host for host in hosts if carries(host.tags, identity)])
