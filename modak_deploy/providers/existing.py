"""Hosts that are already there: nothing is created, and nothing is deleted."""

from collections.abc import Mapping
from typing import Any, ClassVar

from modak_deploy.model.plan import Plan
from modak_deploy.providers.base import Provider, identity_of
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Identity, Listing, Resources


class Existing(Provider):
    """A host that its user has."""

    name: ClassVar[str] = "existing"

    def describe(self, plan: Plan, public_key: str) -> Resources:
        """See Provider."""
        identity = identity_of(plan, public_key)
        return Resources(provider=self.name, identity=identity, tags={DEPLOYMENT_TAG: identity})

    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """See Provider."""
        return Listing()
