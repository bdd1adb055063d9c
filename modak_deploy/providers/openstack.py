"""OpenStack (nova, neutron), by the collection openstack.cloud.

Names and metadata, unlike tags, are given by the call that creates a server or a security group; so the deployment's
tag is metadata of the server, and stands in the description of the group, for which neutron has no metadata.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.cloud import Cloud
from modak_deploy.model.plan import Plan
from modak_deploy.providers.base import Provider, carries, identity_of
from modak_deploy.providers.groups import group_for
from modak_deploy.providers.lists import require_access, rows, texts, valid_address, validated, wanted
from modak_deploy.providers.resources import (
    DEPLOYMENT_TAG,
    PLAN_TAG,
    Identity,
    Instance,
    Listed,
    ListedGroup,
    Listing,
    Resources,
    State,
)
from modak_deploy.terminal import excerpt

HOST_KEY_TAG = "modak:host_key"
"""Key of the metadata with the public host key: a project's members cannot read a server's user data back."""
ADDRESS_TAG = "modak:address"
"""Key of the metadata that says whether the server has a floating IP, which one that is half made lacks."""
_STATES: Mapping[str, State] = {
    "BUILD": "starting",
    "REBUILD": "starting",
    "REBOOT": "starting",
    "HARD_REBOOT": "starting",
    "ACTIVE": "running",
    "PASSWORD": "running",
    "MIGRATING": "running",
    "RESIZE": "running",
    "REVERT_RESIZE": "running",
    "VERIFY_RESIZE": "running",
    "PAUSED": "stopped",
    "SUSPENDED": "stopped",
    "RESCUE": "stopped",
    "SHELVED": "stopped",
    "SHELVED_OFFLOADED": "stopped",
    "SHUTOFF": "stopped",
    "ERROR": "failed",
    "UNKNOWN": "failed",
    "SOFT_DELETED": "gone",
    "DELETED": "gone",
}
"""Server statuses of the Compute API's guide, "Server concepts"."""
_ATTACHING = 120.0
"""Seconds from its start in which a server may still get its floating IP, from the controller that creates it."""
_MOST = 10_000
_MARK = re.compile(rf"{re.escape(DEPLOYMENT_TAG)}=(modak-[0-9a-f]{{16}})(?:\s|$)")
_UNUSED: Mapping[str, str] = {
    "subnet": "name the network as 'vpc'; the server gets an address of one of its subnets",
    "disk": "the flavor has the size of the root disk",
    "root_device": "the flavor has the size of the root disk",
}


class OpenStack(Provider):
    """Clouds of OpenStack."""

    name: ClassVar[str] = "openstack"
    collection: ClassVar[str | None] = "openstack.cloud"
    # 4.8 and later lack the attribute that openstack.cloud 2.5 reads its version from.
    python: ClassVar[str | None] = "openstacksdk<4.8"
    # nova/exception.py: TooManyInstances, which names in the order of the alphabet what is exceeded, or with unified
    # limits says it as oslo.limit does; NoValidHost, MaxRetriesExceeded, ComputeResourcesUnavailable. Another flavor
    # helps neither against a quota of servers nor against neutron's: "Quota exceeded for resources: ['floatingip']".
    # Then openstacksdk's message for a flavor that this cloud does not have, or not for this project; and that of the
    # role's tasks, which learn of a server that could not be started and not always why.
    capacity: ClassVar[Sequence[str]] = (
        "Quota exceeded for cores",
        "Quota exceeded for ram",
        "Resource class:",
        "No valid host was found",
        "Exceeded maximum number of retries",
        "Insufficient compute resources",
        "No Flavor found for",
        "its status is ERROR",
    )

    def describe(self, plan: Plan, public_key: str) -> Resources:
        """See Provider."""
        identity = identity_of(plan, public_key)
        cloud, instance = wanted(plan)
        _check(cloud)
        group = group_for(cloud, identity)
        tags = {
            DEPLOYMENT_TAG: identity,
            PLAN_TAG: plan.tag(),
            ADDRESS_TAG: "floating" if cloud.address == "public" else "fixed",
        }
        return Resources(
            provider=self.name,
            identity=identity,
            region=cloud.region,
            profile=cloud.profile,
            tags=tags,
            group=group.model_copy(update={"description": f"{DEPLOYMENT_TAG}={identity} {group.description}"}),
            instance=Instance(
                # The collection knows a server by its name alone.
                name=identity,
                type=instance.chosen.name,
                machine_image=cloud.machine_image or "",
                vpc=cloud.vpc,
                zones=cloud.zones,
                public_address=cloud.address == "public",
            ),
            lease=instance.lease,
            hourly=instance.chosen.hourly,
            currency=instance.currency,
            maximum_cost=instance.maximum_cost,
            stays=True,
        )

    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """See Provider."""
        with validated("OpenStack"):
            # Only the deployment's own are looked at closely: what a project has besides is of any kind.
            servers = rows(raw, "servers", "OpenStack", _MOST)
            security_groups = rows(raw, "security_groups", "OpenStack", _MOST)
            instances = [_instance(row) for row in servers if carries(texts(row, "metadata"), identity)]
            groups = [
                ListedGroup.model_validate({"id": row.get("id"), "tags": {DEPLOYMENT_TAG: identity}})
                for row in security_groups
                if _marked(row) == identity
            ]
        unmarked = [("server", row) for row in servers if not carries(texts(row, "metadata"), identity)]
        unmarked += [("security group", row) for row in security_groups if _marked(row) != identity]
        named = [f"{kind} {row.get('id')}" for kind, row in unmarked if row.get("name") == identity]
        return Listing(
            instances=[row for row in instances if row.state != "gone"],
            groups=groups,
            unmarked=[excerpt(text) for text in named],
        )


def _check(cloud: Cloud) -> None:
    """Raise InputError for what a server needs and the description lacks, and for what has no meaning here."""
    if cloud.machine_image is None:
        raise InputError(
            "a server of OpenStack needs a machine image, by its name or ID", key="target.cloud.machine_image"
        )
    require_access(cloud)
    for key, hint in _UNUSED.items():
        if getattr(cloud, key) is not None:
            raise InputError("not used by the provider 'openstack'", key=f"target.cloud.{key}", hint=hint)


def _instance(row: Mapping[str, Any]) -> Listed:
    status = row.get("status")
    if not isinstance(status, str) or status not in _STATES:
        raise TargetError(f"OpenStack lists a server in the status '{excerpt(str(status))}', which is not known")
    state, tags = _STATES[status], texts(row, "metadata")
    if state == "failed" and row.get("launched_at"):
        state = "stopped"  # it has run, and may have results: nobody but its user deletes it
    floating, fixed = _addresses(row)
    if tags.get(ADDRESS_TAG) == "floating" and state == "running" and floating is None:
        state = "starting" if _age(row) < _ATTACHING else "failed"
    flavor = row.get("flavor")
    return Listed.model_validate(
        {
            "id": row.get("id"),
            "type": flavor.get("original_name") or flavor.get("name") if isinstance(flavor, dict) else None,
            "state": "ending" if row.get("task_state") == "deleting" else state,
            "launched": row.get("created_at"),
            "address": floating or fixed,
            "host_key": tags.get(HOST_KEY_TAG),
            "tags": tags,
        }
    )


def _age(row: Mapping[str, Any]) -> float:
    """Return the seconds since the server started to run, or was asked for; infinity where that cannot be told."""
    said = row.get("launched_at") or row.get("created_at")
    try:
        begun = datetime.fromisoformat(said if isinstance(said, str) else "")
    except ValueError:
        return math.inf
    return (datetime.now(UTC) - (begun if begun.tzinfo else begun.replace(tzinfo=UTC))).total_seconds()


def _addresses(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the server's floating and its fixed address; IPv4 before IPv6."""
    reported: dict[str, list[str]] = {"floating": [], "fixed": []}
    addresses = row.get("addresses")
    for network in addresses.values() if isinstance(addresses, dict) else []:
        for entry in network if isinstance(network, list) else []:
            kind = entry.get("OS-EXT-IPS:type") if isinstance(entry, dict) else None
            if isinstance(kind, str) and kind in reported:
                reported[kind].append(valid_address(entry.get("addr"), "OpenStack"))
    first = {kind: min(several, key=lambda address: ":" in address, default=None) for kind, several in reported.items()}
    return first["floating"], first["fixed"]


def _marked(row: Mapping[str, Any]) -> str | None:
    description = row.get("description")
    match = _MARK.match(description[:200]) if isinstance(description, str) else None
    return match.group(1) if match else None
