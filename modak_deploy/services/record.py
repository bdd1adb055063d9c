"""A service's record on its target: which replicas there are, and which of them the front leads clients to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, model_validator

from modak_deploy.errors import TargetError
from modak_deploy.model.base import Model, Name
from modak_deploy.model.service import Address, Port
from modak_deploy.util.digest import sha256_of

Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Tag = Annotated[str, StringConstraints(pattern=r"^modak-[0-9a-f]{16}$")]
State = Literal["starting", "serving", "retired"]
"""A replica is recorded as ``starting`` before it is started, as ``serving`` before clients are led to it, and as
``retired`` before they no longer are."""
MOST = 1024 * 1024
"""Bytes of a record."""


def tag_of(name: str, identity: str) -> str:
    """Return the tag of the job that a replica or a front is: another one for each id."""
    return f"modak-{sha256_of({'service': name, 'id': identity})[:16]}"


class Replica(Model):
    """One replica: a job of its own, which its id leads to."""

    id: Id
    plan: Tag
    """Tag of the Plan that it runs."""
    ports: Annotated[list[Port], Field(min_length=1, max_length=32)]
    """The port that clients are led to, and further ones."""
    state: State

    @property
    def port(self) -> int:
        """The port that clients are led to."""
        return self.ports[0]


class FrontRecord(Model):
    """The proxy before the replicas."""

    id: Id
    address: Address
    port: Port


class ServiceRecord(Model):
    """All that belongs to a service on its target; recorded before it is started, and removed after it has ended."""

    schema_: Literal["modak.service/1"] = Field(default="modak.service/1", alias="schema")
    name: Name
    revision: Annotated[int, Field(ge=0, le=10**9)] = 0
    """How often the record was written: who writes it names the revision that was read."""
    front: FrontRecord | None = None
    """None before the first start, and for a service without a front."""
    replicas: Annotated[list[Replica], Field(max_length=1000)] = []

    @model_validator(mode="after")
    def _ids_differ(self) -> ServiceRecord:
        ids = [replica.id for replica in self.replicas]
        if len(set(ids)) < len(ids):
            raise ValueError("two replicas have one id")
        return self

    def of(self, *states: State) -> list[Replica]:
        """Return the replicas in one of these states."""
        return [replica for replica in self.replicas if replica.state in states]

    def without(self, gone: list[Replica]) -> ServiceRecord:
        """Return the record without these replicas."""
        ids = {replica.id for replica in gone}
        return self.model_copy(update={"replicas": [r for r in self.replicas if r.id not in ids]})

    def to_json(self) -> str:
        """Return the record's text, one line."""
        return self.model_dump_json(by_alias=True) + "\n"


def parse(text: str, name: str) -> ServiceRecord | None:
    """Return what a target reports as the record of the service ``name``; None where there is none.

    TargetError where it cannot be read: what runs there is not known then.
    """
    if not text.strip():
        return None
    if len(text) > MOST:
        raise TargetError(f"the record of the service {name} on the target has more than {MOST} bytes")
    try:
        record = ServiceRecord.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise TargetError(
            f"the record of the service {name} on the target cannot be read: {where or 'record'}: {first['msg']}"
        ) from None
    if record.name != name:
        raise TargetError(f"the record of the service {name} on the target is that of another service")
    return record
