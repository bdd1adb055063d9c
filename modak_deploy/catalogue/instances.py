"""Instance types of cloud providers, with their prices: what a Plan chooses among where no host exists yet."""

import math
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from modak_deploy.catalogue.hardware import Rate
from modak_deploy.model.base import DeferredModel, Line, Memory, Name, Positive
from modak_deploy.model.image import Architecture
from modak_deploy.model.target import Accelerator, Node

Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class InterruptiblePrice(DeferredModel):
    """Price of one spot instance for an hour, and how often such an instance is taken back."""

    hourly: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    interruptions: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] | None = None
    """Times that an instance is taken back in an hour, on average; absent where it is not known."""
    date: Day
    """Day on which the price was valid: spot prices change within hours."""
    source: Line
    """Where the price comes from."""


class InstancePrice(DeferredModel):
    """Price of one instance for an hour, on demand."""

    region: Line
    """The provider's name of the region."""
    hourly: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """0 where nothing is charged, as at a cloud of one's own."""
    currency: Currency = "USD"
    date: Day
    """Day from which, or on which, the price was valid."""
    source: Line
    """Where the price comes from."""
    spot: InterruptiblePrice | None = None
    """The same as a spot instance; where it is absent the price on demand counts, which AWS does not exceed."""


class InstanceAccelerator(DeferredModel):
    """GPUs of an instance."""

    model: Name
    """Name of a catalogue entry of accelerators."""
    count: Positive = 1
    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    memory: Memory | None = None
    """Bytes of one GPU."""


class InstanceEntry(DeferredModel):
    """One instance type."""

    name: Name
    """The provider's name."""
    provider: Name
    """Name of the provider, as ``target.cloud.provider``."""
    vcpus: Positive
    """Virtual processors that the instance shows."""
    architecture: Architecture = "amd64"
    microarchitecture: Name
    """archspec's name."""
    processor: Line | None = None
    """The maker's name."""
    memory: Memory
    """Bytes of main memory."""
    disk: Memory | None = None
    """Bytes of the root disk, where the type and not the machine image decides it, as on libvirt."""
    accelerators: list[InstanceAccelerator] = []
    network: Rate | None = None
    """Gbit/s, the most that the provider states."""
    prices: Annotated[list[InstancePrice], Field(min_length=1)]

    def price_in(self, region: str) -> InstancePrice | None:
        """Return the latest price in a region; None where there is none."""
        prices = [price for price in self.prices if price.region == region]
        return max(prices, key=lambda price: price.date, default=None)

    def node(self, hourly: float) -> Node:
        """Return its hardware as that of a node which costs ``hourly``."""
        from archspec.cpu import TARGETS

        target = TARGETS.get(self.microarchitecture)
        return Node(
            cores=self.vcpus,
            # The kernel and the firmware take part of what is sold; a job can use less than the label says.
            memory=math.floor(self.memory * 0.95),
            microarchitecture=self.microarchitecture,
            cpu_model=self.processor,
            cpu_features=sorted(target.features) if target is not None else [],
            accelerators=[
                Accelerator(model=a.model, count=a.count, vendor=a.vendor, memory=a.memory) for a in self.accelerators
            ],
            price=hourly,
        )


class InstanceFile(DeferredModel):
    """One YAML file of instance types."""

    version: Literal[1]
    instances: list[InstanceEntry] = []
