"""What a provider is to modak: pure decisions; the role's tasks carry them out."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from modak_deploy.errors import InputError
from modak_deploy.model.cloud import Cloud
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Target
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Identity, Listing, Resources


class Provider(ABC):
    """One provider of instances."""

    name: ClassVar[str]
    """As ``target.cloud.provider`` gives it."""
    collection: ClassVar[str | None] = None
    """The Ansible collection that its tasks use."""
    python: ClassVar[str | None] = None
    """The Python packages that this collection needs for localhost's Python, as pip takes them, with blanks between."""
    role: ClassVar[str] = "modak.deploy.cloud"
    """Role with the tasks ``NAME_list``, ``NAME_create`` and ``NAME_release``."""
    interruptible: ClassVar[bool] = False
    """Whether it has spot instances."""
    capacity: ClassVar[Sequence[str]] = ()
    """Error codes by which the provider says that it has no capacity or quota for an instance type at present."""

    @abstractmethod
    def describe(self, plan: Plan, public_key: str) -> Resources:
        """Return what the Plan needs; InputError for what the description lacks.

        ``public_key`` is the user's SSH key, which belongs to the deployment's identity.
        """

    def belonging(self, target: Target, identity: Identity) -> Resources:
        """Return what is needed to list and delete what a deployment has, without a Plan."""
        cloud = cloud_of(target)
        return Resources(
            provider=self.name,
            identity=identity,
            region=cloud.region,
            profile=cloud.profile,
            tags={DEPLOYMENT_TAG: identity},
            launch_template=cloud.spot is not None,
        )

    @abstractmethod
    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """Return what the tasks ``NAME_list`` found, validated, and of that only what carries the identity.

        ``raw`` holds the registered results of these tasks by name.
        """

    def definitions(self, resources: Resources, raw: Mapping[str, Any], host_key: str) -> Mapping[str, str]:
        """Return the documents by which the tasks ``NAME_create`` create the resources, for a provider that takes such.

        ``raw`` is what the tasks ``NAME_list`` found, ``host_key`` the public host key of the instance. TargetError,
        with a text that ``has_no_capacity`` recognises, where the provider has no room for the instance.
        """
        return {}

    def has_no_capacity(self, message: str) -> bool:
        """Return whether an error of the tasks ``NAME_create`` says that the instance type cannot be had now."""
        return any(code in message for code in self.capacity)


def cloud_of(target: Target) -> Cloud:
    """Return what the document says of the cloud; InputError where the target is no instance."""
    if target.cloud is None:
        raise InputError(f"the target {target.name} is of type {target.type}, not of type cloud")
    return target.cloud


def identity_of(plan: Plan, public_key: str) -> Identity:
    """Return the value of the tag by which a Plan's resources are recognised; see ``identity_named``."""
    return identity_named(plan.name, plan.target, public_key)


def identity_named(run: str, target: Target, public_key: str) -> Identity:
    """Return the value of the tag by which a deployment's resources are recognised.

    It follows from the document and the user's SSH key alone: it is found again with lost local state, a document that
    was changed has the same, and two users of one account have different ones. The instance type is no part of it, so
    that there is one instance whichever type had capacity. ``run`` is the run's name. Where the target names the
    deployment that several runs share, that name stands for the run's and for the target's, which an orchestrator gives
    a node in one way as a host and in another one as an alternative.
    """
    cloud = cloud_of(target)
    names = [run, target.name] if cloud.deployment is None else ["", cloud.deployment]
    parts = [*names, cloud.provider, cloud.region or "", " ".join(public_key.split()[:2])]
    return f"modak-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def carries(tags: Mapping[str, str], identity: Identity) -> bool:
    """Return whether something with these tags belongs to the deployment."""
    return tags.get(DEPLOYMENT_TAG) == identity
