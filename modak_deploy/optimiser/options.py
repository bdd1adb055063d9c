"""The options of a decision: where the application can run, and with which levers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modak_deploy.model.base import RuntimeName
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.target import Node

LeverSet = tuple[str, ...]
"""Names of levers in the catalogue's order."""


@dataclass(frozen=True, order=True)
class Option:
    """One way to run the application, by names."""

    runtime: RuntimeName
    image: str | None
    engine: str | None
    """The framework in place of the application's own."""
    levers: LeverSet

    @property
    def name(self) -> str:
        """The candidate's name."""
        return "+".join([*location_parts(self.runtime, self.image, self.engine), *self.levers]) or "as-is"

    def with_levers(self, levers: LeverSet) -> "Option":
        """Return the same place with other levers."""
        return Option(self.runtime, self.image, self.engine, levers)


def location_parts(runtime: str, image: str | None, engine: str | None) -> list[str]:
    """Return the words of a candidate's name that say where it runs; none for the plain application on the target."""
    where = [f"{runtime}:{image}"] if image else [runtime] if runtime != "native" else []
    return [*where, *([engine] if engine else [])]


@dataclass(frozen=True)
class Location:
    """Where the application can run: on the target itself or in an image; and what conditions are asked about there."""

    type: str
    framework: str | None
    """What does the work: what the application is written for, or the engine in its stead."""
    node: Node
    glibc: str | None
    libraries: Sequence[str]
    packages: Mapping[str, str]
    gpus: int
    python: str | None
    """The application's Python there."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runtime: RuntimeName = "native"
    image: ImageEntry | None = None
    engine: str | None = None

    def version_of(self, package: str) -> str | None:
        """Return the version of ``package`` or of a distribution that provides it."""
        for name in (package, *self.aliases.get(package, ())):
            if name in self.packages:
                return self.packages[name]
        return None

    @property
    def what(self) -> str:
        """What brings the packages, for sentences."""
        return f"the image {self.image.name}" if self.image else "the application's Python"

    @property
    def host(self) -> str:
        """What brings system libraries, for sentences."""
        return f"the image {self.image.name}" if self.image else "the target"

    def option(self, levers: LeverSet) -> Option:
        """Return this place with ``levers``."""
        return Option(self.runtime, self.image.name if self.image else None, self.engine, levers)
