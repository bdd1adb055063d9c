"""What a deployment has at a provider: what is to be created, and what a listing shows."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from modak_deploy.model.base import HostName, Line, Memory, Model, Name, Positive
from modak_deploy.model.cloud import Network, Port, ProviderName, label_of

DEPLOYMENT_TAG = "modak:deployment"
"""Key of the tag by which everything of a deployment is recognised."""
PLAN_TAG = "modak:plan"
"""Key of the tag with the Plan's own tag: for people, nothing is recognised by it."""

Identity = Annotated[str, StringConstraints(pattern=r"^modak-[0-9a-f]{16}$")]
"""Value of the deployment's tag."""
Reported = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]
"""A word that a provider reports: printable, with no blank in it."""
State = Literal["starting", "running", "stopped", "failed", "ending", "gone"]
"""``failed`` is an instance that never came to run, and is deleted."""


class Rule(Model):
    """Ports of a security group, and who may connect to them."""

    protocol: Literal["tcp", "udp"]
    first: Port
    last: Port
    sources: Annotated[list[Network], Field(min_length=1)]


class Group(Model):
    """A security group: what no rule names is closed from outside."""

    name: Line
    description: Line
    rules: list[Rule] = []


class Instance(Model):
    """An instance to create."""

    name: Line
    type: Name
    machine_image: Line
    subnet: Line | None = None
    vpc: Line | None = None
    zones: list[Line] = []
    public_address: bool = True
    disk: Memory | None = None
    root_device: Line | None = None
    interruptible: bool = False
    vcpus: Positive | None = None
    memory: Memory | None = None
    pool: Line | None = None
    emulation: bool = False


class Resources(Model):
    """All that a deployment needs at its provider."""

    provider: ProviderName
    identity: Identity
    region: Line | None = None
    profile: Line | None = None
    tags: dict[str, Line]
    pool: Line | None = None
    network: Line | None = None
    """On libvirt the storage pool and the network, which are needed to list and delete as well."""
    launch_template: bool = False
    """Whether it may have a launch template, by which amazon.aws creates spot instances."""
    group: Group | None = None
    instance: Instance | None = None
    """Nothing for a host that is there already."""
    lease: Positive | None = None
    """Seconds after which the instance ends itself."""
    hourly: float | None = None
    currency: Line | None = None
    maximum_cost: float | None = None
    """Price of the whole lease."""
    stays: bool = False
    """Whether an instance that ends itself stays there, stopped, and may be charged until it is deleted."""

    def summary(self) -> list[str]:
        """Return one line for each thing that is created, with its price."""
        lines = []
        if self.group is not None:
            opened = [
                f"{rule.protocol} {rule.first if rule.first == rule.last else f'{rule.first}-{rule.last}'}"
                f" for {', '.join(rule.sources)}"
                for rule in self.group.rules
            ]
            lines.append(f"security group {self.group.name}: opens {'; '.join(opened) or 'nothing'}")
        if self.instance is not None:
            price, most = f"{self.hourly:g} {self.currency} an hour", f"{self.maximum_cost:g} {self.currency}"
            if self.stays:
                text = (
                    f"{price}; it stops itself after {self.lease} s, at {most}, and stays, which many clouds charge, "
                    "until it is undeployed"
                )
            else:
                restarts = " with all restarts" if self.instance.interruptible else ""
                text = f"{price}, {most} at most{restarts}; it ends itself after {self.lease} s"
            kind = label_of(self.instance.type, interruptible=self.instance.interruptible)
            lines.append(f"instance {self.instance.name}: {kind} in {self.region}, {text}")
        return lines


class Listed(Model):
    """An instance as the provider lists it."""

    id: Reported
    type: Reported
    state: State
    interruptible: bool = False
    interrupted: bool = False
    """Whether it ended because the provider has taken it back."""
    launched: Reported
    """Time of the launch in ISO 8601, so that texts compare as times do."""
    address: HostName | None = None
    host_key: Line | None = None
    """The public host key in its user data or metadata."""
    tags: dict[str, str] = {}

    @property
    def label(self) -> str:
        """What tells a spot instance and an on-demand one of a type apart."""
        return label_of(self.type, interruptible=self.interruptible)


class ListedTemplate(Model):
    """A launch template as the provider lists it."""

    id: Reported
    tags: dict[str, str] = {}


class ListedGroup(Model):
    """A security group as the provider lists it."""

    id: Reported
    tags: dict[str, str] = {}


class Listing(Model):
    """All that the provider has of a deployment."""

    instances: list[Listed] = []
    groups: list[ListedGroup] = []
    templates: list[ListedTemplate] = []
    interrupted: list[Reported] = []
    """Instances that ended because the provider has taken them back, as far as it still lists them."""
    unmarked: list[Line] = []
    """What has the deployment's name and lacks its mark, where names are what the provider's modules go by."""
