"""What the providers' listings and descriptions have in common, whatever the cloud."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

from pydantic import ValidationError

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.cloud import Cloud, InstancePlan
from modak_deploy.model.plan import Plan
from modak_deploy.terminal import excerpt


def wanted(plan: Plan) -> tuple[Cloud, InstancePlan]:
    """Return what the document says of the cloud, and the instance that was chosen."""
    cloud, instance = plan.target.cloud, plan.instance
    if cloud is None or instance is None:
        raise InputError("the Plan chose no instance type", hint="plan it again")
    return cloud, instance


def require_access(cloud: Cloud) -> None:
    """Raise InputError where nobody could log in."""
    if not cloud.access:
        raise InputError(
            "no network may connect to the instance",
            key="target.cloud.access",
            hint="name the networks from which you connect, such as 192.0.2.0/24",
        )


def rows(raw: Mapping[str, Any], key: str, cloud: str, most: int) -> list[Mapping[str, Any]]:
    """Return a list of a cloud's answer; TargetError where it is none, or longer than ``most``."""
    listed = raw.get(key)
    if not isinstance(listed, list) or len(listed) > most or not all(isinstance(row, dict) for row in listed):
        raise TargetError(f"{cloud}'s answer has no list of {key.replace('_', ' ')}")
    return listed


def texts(row: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return a map of texts of a row, such as its tags, and of that what is text."""
    held = row.get(key)
    if not isinstance(held, dict):
        return {}
    return {name: value for name, value in held.items() if isinstance(name, str) and isinstance(value, str)}


def valid_address(value: object, cloud: str) -> str:
    """Return an IP address of a cloud's answer; TargetError where it is none."""
    try:
        return str(ip_address(value if isinstance(value, str) else ""))
    except ValueError:
        raise TargetError(f"{cloud} lists an address that is not valid: {excerpt(str(value))}") from None


@contextmanager
def validated(cloud: str) -> Iterator[None]:
    """Turn what a cloud lists and is not valid into a TargetError."""
    try:
        yield
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise TargetError(f"{cloud} lists a {where} that is not valid: {excerpt(str(fault['input']))}") from None
