"""An application that does not end: where clients connect, and how a replica is watched and replaced."""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from modak_deploy.model.base import Duration, Line, Model, Name, NonNegative

Port = Annotated[int, Field(ge=1, le=65535)]
Health = Annotated[str, StringConstraints(pattern=r"^(tcp|/[A-Za-z0-9._~/?=&%+,:@-]*)$", max_length=500)]
"""``tcp``, or the path of an HTTP request."""


def _ip_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IP address") from None
    return text


Address = Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f.:]{2,45}$"), AfterValidator(_ip_address)]
"""An IP address."""
PortName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,15}$")]
Front = Literal["haproxy", "none"]


class Service(Model):
    """What makes an application a service: it runs until it is undeployed, and clients connect to its port."""

    port: Port
    """Port of the host to which clients connect."""
    address: Address = "127.0.0.1"
    """IP address of the host on which that port is open; ``0.0.0.0`` for all of them."""
    health: Health = "tcp"
    """Path of an HTTP request, such as ``/v2/health/ready``: a replica is ready when the answer has a status of 200 to
    299. ``tcp``: it is ready when it accepts connections."""
    start_limit: Duration = 60
    """Seconds in which a new replica must be ready; otherwise it is ended, and the old ones stay."""
    drain: Duration = 30
    """Seconds for requests in flight at an old replica before it is ended."""
    timeout: Duration = 60
    """Seconds that a request may take without a byte from the client or the replica."""
    replicas: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of replicas on the host."""
    front: Front = "haproxy"
    """What accepts the clients' connections: HAProxy, or ``none``: the single replica itself, and then no request is
    answered while it is replaced."""
    further_ports: Annotated[list[PortName], Field(max_length=31)] = []
    """Names of further ports that each replica needs for itself, such as ``grpc``: ``{grpc}`` in an argument is the
    number, as ``{port}`` is that of the replica's own port; the environment variables are PORT and PORT_GRPC."""

    @model_validator(mode="after")
    def _consistent(self) -> "Service":
        if self.front == "none" and self.replicas > 1:
            raise ValueError("several replicas need a 'front' before them: with 'none' there is a single one")
        if "port" in self.further_ports or len(set(self.further_ports)) < len(self.further_ports):
            raise ValueError("the names in 'further_ports' must differ from one another and from 'port'")
        return self

    @property
    def is_http(self) -> bool:
        """Whether readiness is the answer to an HTTP request."""
        return self.health != "tcp"


class ReplicaResult(Model):
    """A replica as it is seen."""

    id: Line
    port: Port
    state: Literal["starting", "serving", "retired"]
    ready: bool
    restarts: NonNegative = 0
    """How often it was started again after it had ended by itself."""
    directory: Line
    """Its folder on the target."""


class ServiceResult(Model):
    """A service as it is seen."""

    name: Name
    url: Line
    ready: bool
    """Whether clients are answered."""
    revision: NonNegative = 0
    """How often the record on the target was written."""
    directory: Line
    """Folder of its record on the target."""
    replicas: list[ReplicaResult] = []
