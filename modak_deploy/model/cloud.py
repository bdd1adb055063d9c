"""Instances of a cloud: what the user describes, and what a Plan chose."""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from modak_deploy.extensions import PROVIDERS
from modak_deploy.model.base import Duration, Line, Memory, Model, Name, Positive, Registered, RuntimeName, VersionText

ProviderName = Annotated[str, Registered(PROVIDERS)]
DEFAULT_LEASE = 4 * 3600
"""Seconds that an instance lives at most where neither ``lease`` nor the job's wall time says how long."""
LEASE_MARGIN = 1800
"""Seconds that a lease derived from the job's wall time leaves for the start and for fetching results."""


def _check_network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError(f"'{value[:80]}' is not a network such as 192.0.2.0/24 or 2001:db8::/32") from None


Network = Annotated[str, AfterValidator(_check_network)]
"""A network in CIDR notation."""
Port = Annotated[int, Field(ge=1, le=65535)]


class OpenPort(Model):
    """A port that the instance's security group opens."""

    port: Port
    """The port, or the first one of a range."""
    last: Port | None = None
    """The last port of a range; a single port when absent."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """The transport protocol."""
    sources: list[Network] = []
    """Networks that may connect, in CIDR notation; those of ``access`` when empty."""

    @model_validator(mode="after")
    def _ordered(self) -> "OpenPort":
        if self.last is not None and self.last < self.port:
            raise ValueError(f"the range of ports ends at {self.last}, before its start at {self.port}")
        return self


class MachineSoftware(Model):
    """Software installed in the machine image; an instance that does not exist yet cannot be queried."""

    python: Line | None = None
    """The application's Python, as an absolute path."""
    packages: dict[str, VersionText] = {}
    """Python packages that this Python sees, by name."""
    runtimes: dict[RuntimeName, VersionText] = {}
    """Container runtimes with their versions."""
    glibc: VersionText | None = None
    """Version of the C library."""


class Interruptions(Model):
    """Instances of spare capacity, which cost less, and which the provider may take back at any time."""

    only: bool = False
    """Whether on-demand instances are left out, in place of compared."""
    restarts: int = Field(default=3, ge=0, le=20)
    """How many times one deployment starts the job again, from its beginning and on another instance, because the
    provider has taken its instance back."""


class Cloud(Model):
    """An instance that is created for the deployment and released after it."""

    provider: ProviderName
    """Provider of the instance: ``aws``, ``openstack``, ``libvirt``, or ``existing`` for a host that already exists."""
    region: Line | None = None
    """The provider's region; required for every provider but ``existing``. On libvirt your own name of the host, by
    which the catalogue has its instance types."""
    zones: list[Line] = []
    """Availability zones to try, in this order, before another instance type; the provider's choice when empty. On AWS
    not with ``subnet``, which lies in one zone."""
    machine_image: Line | None = None
    """The provider's identifier of the machine image, such as ami-0123456789abcdef0; on OpenStack its name or ID;
    on libvirt a volume of ``pool``, or the absolute path of a .qcow2 or .raw file on its host."""
    software: MachineSoftware = MachineSoftware()
    """Software installed in the machine image."""
    instance_types: list[Name] = []
    """Instance types of the catalogue to choose among; all that the provider offers in the region when empty."""
    subnet: Line | None = None
    """Identifier of the subnet; the default subnet when absent."""
    vpc: Line | None = None
    """Identifier of the network (VPC), on OpenStack its name or ID; the default VPC, or the project's only network,
    when absent. On libvirt a network that gives addresses by DHCP; ``default`` when absent."""
    address: Literal["public", "private"] | None = None
    """The address that the controller connects to; the public one when absent. On OpenStack ``public`` is a floating
    IP, and the server's address on its network is taken when absent."""
    access: list[Network] = []
    """Networks that may connect to the SSH server, in CIDR notation; none when empty."""
    ports: list[OpenPort] = []
    """Other ports to open."""
    public_key: Line | None = None
    """Public SSH key file on the controller; the target's ``private_key`` with ``.pub`` when absent."""
    disk: Memory | None = None
    """Size of the root disk in bytes; that of the machine image when absent. On libvirt the instance type may have
    one."""
    root_device: Line | None = None
    """Device name of the machine image's root disk; required with ``disk`` on AWS."""
    pool: Line | None = None
    """On libvirt: the storage pool, of files, for the instance's disk; ``default`` when absent."""
    emulation: bool = False
    """On libvirt: QEMU emulates the processor, for a host without KVM; then no predicted time holds."""
    spot: Interruptions | None = None
    """On AWS: spot instances are candidates too; on-demand instances alone when absent."""
    lease: Duration | None = None
    """Seconds after which the instance shuts itself down, and on AWS is terminated; when absent, 30 minutes more than
    the job's ``wall_time``, or 4 hours without one. A budget shortens it to what the budget pays for."""
    deployment: Name | None = None
    """Name by which several runs share the instance; the run's own name when absent. Undeploying one of them deletes
    the instance. An orchestrator deletes it after all jobs of its node."""
    after_failure: Literal["keep", "release"] | None = None
    """What happens to the instance when the job has failed and its results have been fetched, or when its image cannot
    be had: ``keep`` it until its lease ends or it is undeployed, as when absent, or ``release`` it at once. One that
    runs share by ``deployment`` is kept."""
    profile: Line | None = None
    """Profile in the provider's configuration, or a cloud of ``clouds.yaml``; on libvirt the connection URI, or its
    alias in libvirt.conf. Credentials are read only from the provider's usual sources."""

    @model_validator(mode="after")
    def _region(self) -> "Cloud":
        if self.provider != "existing" and self.region is None:
            raise ValueError(f"the provider '{self.provider}' needs a 'region'")
        if self.disk is not None and self.root_device is None and self.provider != "libvirt":
            raise ValueError("'disk' needs 'root_device', the name of the machine image's root disk, such as /dev/xvda")
        return self


class Estimate(Model):
    """An amount with its interval."""

    value: float = Field(ge=0, allow_inf_nan=False)
    low: float = Field(ge=0, allow_inf_nan=False)
    high: float = Field(ge=0, allow_inf_nan=False)
    unit: Line | None = None
    """Currency; node-hours where a node has no price."""


class InstanceCandidate(Model):
    """An instance type that can do what was asked."""

    name: Name
    """The provider's name of it."""
    interruptible: bool = False
    """Whether it is a spot instance, which the provider may take back."""
    hourly: float = Field(ge=0, allow_inf_nan=False)
    """Price for an hour; 0 where nothing is charged."""
    vcpus: Positive | None = None
    """Virtual processors of the type."""
    memory: Memory | None = None
    """Bytes of main memory of the type."""
    disk: Memory | None = None
    """Bytes of the type's root disk; that of the machine image when absent."""
    seconds: Estimate | None = None
    """Predicted seconds of the job; absent where no time is known."""
    basis: Line = "none"
    """What the seconds rest on, as in a prediction."""
    cost: Estimate | None = None
    """Predicted price of the job with the start of its instance, and for a spot instance with those runs that it is
    expected to lose; absent where no time is known."""
    interruption: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Probability that a spot instance is taken back before the job ends; absent where it is not known."""

    @property
    def label(self) -> str:
        """Its name, by which a spot instance and an on-demand one of a type are told apart."""
        return label_of(self.name, interruptible=self.interruptible)


def label_of(name: str, *, interruptible: bool) -> str:
    """Return what tells a spot instance and an on-demand one of a type apart."""
    return f"{name} spot" if interruptible else name


class InstancePlan(Model):
    """Which instance is created for the job, and what it costs."""

    provider: ProviderName
    region: Line
    chosen: InstanceCandidate
    candidates: list[InstanceCandidate] = []
    """Further instance types, best first: they are tried where the provider has no capacity or quota for the chosen."""
    currency: Line
    price_date: Line
    """Day of the price, as the catalogue has it."""
    price_source: Line
    lease: Positive
    """Seconds after which the instance ends itself."""
    maximum_cost: float = Field(ge=0, allow_inf_nan=False)
    """Price of the whole lease, and for a spot instance of that of each restart too: more cannot be spent."""
