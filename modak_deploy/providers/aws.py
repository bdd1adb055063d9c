"""AWS EC2, by the collection amazon.aws."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.providers.base import Provider, carries, identity_of
from modak_deploy.providers.cloudinit import host_key_in
from modak_deploy.providers.groups import group_for
from modak_deploy.providers.lists import require_access, rows, texts, validated, wanted
from modak_deploy.providers.resources import (
    DEPLOYMENT_TAG,
    PLAN_TAG,
    Identity,
    Instance,
    Listed,
    ListedGroup,
    ListedTemplate,
    Listing,
    Resources,
    State,
)
from modak_deploy.terminal import excerpt

_STATES: Mapping[str, State] = {
    "pending": "starting",
    "running": "running",
    "stopping": "stopped",
    "stopped": "stopped",
    "shutting-down": "ending",
    "terminated": "gone",
}
"""Instance states of the EC2 API reference, InstanceState."""
_TAKEN = ("Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")
"""State reasons of spot instances that EC2 has taken back (EC2 API reference, StateReason)."""
_MOST = 1000


class Aws(Provider):
    """Amazon Web Services."""

    name: ClassVar[str] = "aws"
    collection: ClassVar[str | None] = "amazon.aws"
    python: ClassVar[str | None] = "boto3"
    interruptible: ClassVar[bool] = True
    # "Error codes for the Amazon EC2 API", client and server error codes that another type or zone may not have.
    capacity: ClassVar[Sequence[str]] = (
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientCapacity",
        "InstanceLimitExceeded",
        "VcpuLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "Unsupported",
    )

    def describe(self, plan: Plan, public_key: str) -> Resources:
        """See Provider."""
        identity = identity_of(plan, public_key)
        cloud, instance = wanted(plan)
        if cloud.machine_image is None:
            raise InputError(
                "an instance of aws needs a machine image, such as ami-0123...", key="target.cloud.machine_image"
            )
        if cloud.zones and cloud.subnet is not None:
            raise InputError("a subnet lies in one zone: leave 'zones' out", key="target.cloud.zones")
        if cloud.address != "private":
            require_access(cloud)
        return Resources(
            provider=self.name,
            identity=identity,
            region=cloud.region,
            profile=cloud.profile,
            tags={DEPLOYMENT_TAG: identity, PLAN_TAG: plan.tag(), "Name": f"modak-{plan.name}"},
            launch_template=cloud.spot is not None,
            group=group_for(cloud, identity),
            instance=Instance(
                name=f"modak-{plan.name}",
                type=instance.chosen.name,
                machine_image=cloud.machine_image,
                subnet=cloud.subnet,
                vpc=cloud.vpc,
                zones=cloud.zones,
                public_address=cloud.address != "private",
                disk=cloud.disk,
                root_device=cloud.root_device,
                interruptible=instance.chosen.interruptible,
            ),
            lease=instance.lease,
            hourly=instance.chosen.hourly,
            currency=instance.currency,
            maximum_cost=instance.maximum_cost,
        )

    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """See Provider."""
        with validated("AWS"):
            instances = [_instance(row) for row in rows(raw, "instances", "AWS", _MOST)]
            ended = [_instance(row) for row in rows({"ended": [], **raw}, "ended", "AWS", _MOST)]
            groups = [
                ListedGroup.model_validate({"id": row.get("group_id"), "tags": texts(row, "tags")})
                for row in rows(raw, "security_groups", "AWS", _MOST)
            ]
            templates = [
                ListedTemplate.model_validate({"id": row.get("launch_template_id"), "tags": texts(row, "tags")})
                for row in rows({"launch_templates": [], **raw}, "launch_templates", "AWS", _MOST)
            ]
        return Listing(
            instances=[row for row in instances if row.state != "gone" and carries(row.tags, identity)],
            groups=[group for group in groups if carries(group.tags, identity)],
            templates=[template for template in templates if carries(template.tags, identity)],
            interrupted=[row.id for row in [*instances, *ended] if row.interrupted and carries(row.tags, identity)],
        )


def _instance(row: Mapping[str, Any]) -> Listed:
    state = row.get("state")
    name = state.get("name") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in _STATES:
        raise TargetError(f"AWS lists an instance in the state '{excerpt(str(name))}', which is not known")
    public, private = row.get("public_ip_address"), row.get("private_ip_address")
    return Listed.model_validate(
        {
            "id": row.get("instance_id"),
            "type": row.get("instance_type"),
            "state": _STATES[name],
            "interruptible": row.get("instance_lifecycle") == "spot",
            "interrupted": _STATES[name] != "running" and _reason(row) in _TAKEN,
            "launched": row.get("launch_time"),
            "address": public or private or None,
            "host_key": _host_key(row),
            "tags": texts(row, "tags"),
        }
    )


def _reason(row: Mapping[str, Any]) -> object:
    reason = row.get("state_reason")
    return reason.get("code") if isinstance(reason, dict) else None


def _host_key(row: Mapping[str, Any]) -> str | None:
    attributes = row.get("attributes")
    attribute = attributes.get("user_data") if isinstance(attributes, dict) else None
    value = attribute.get("value") if isinstance(attribute, dict) else None
    if not isinstance(value, str):
        return None
    try:
        return host_key_in(base64.b64decode(value, validate=True).decode("utf-8"))
    except (binascii.Error, UnicodeDecodeError):
        return None
