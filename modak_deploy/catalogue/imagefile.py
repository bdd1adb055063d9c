"""Images of the catalogue: their file, and an index by what is inside."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, Literal

from packaging.version import Version
from pydantic import Field

from modak_deploy.engines.registry import package_of
from modak_deploy.model.base import Model
from modak_deploy.model.image import ImageEntry

_SOURCES = ("hub", "pip", "opt-build", "base")


class ImageFile(Model):
    """One YAML file of images."""

    version: Literal[1]
    images: Annotated[list[ImageEntry], Field(max_length=1_000_000)] = []


Key = tuple[int, tuple[int, ...], str]


def preference(entry: ImageEntry) -> Key:
    """Return the sort key by which an image comes first that somebody takes who does not choose.

    What a project publishes comes before what is built, newer before older.
    """
    release = Version(entry.version).release if entry.version else ()
    return (_SOURCES.index(entry.source), tuple(-part for part in (*release, 0, 0, 0, 0)[:4]), entry.name)


class Alike:
    """Images that fit or do not fit a target for the same reasons, the preferred first."""

    def __init__(self, entries: Iterable[ImageEntry]) -> None:
        self._keyed = sorted(((preference(entry), entry) for entry in entries), key=lambda pair: pair[0])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all."""
        return frozenset(entry.name for _, entry in self._keyed)

    def __len__(self) -> int:
        return len(self._keyed)

    def __iter__(self) -> Iterator[ImageEntry]:
        return (entry for _, entry in self._keyed)

    @property
    def first(self) -> ImageEntry:
        """The preferred one."""
        return self._keyed[0][1]

    @staticmethod
    def preferred(groups: Iterable["Alike"], count: int) -> list[ImageEntry]:
        """Return the ``count`` preferred images of all groups."""
        merged = heapq.merge(*(group._keyed for group in groups), key=lambda pair: pair[0])
        return [entry for _, entry in islice(merged, count)]


class ImageIndex:
    """Images by package, in groups that need only one check each: a catalogue may hold a hundred thousand images."""

    def __init__(self, images: Iterable[ImageEntry], aliases: Mapping[str, Sequence[str]]) -> None:
        provides = {other: package for package, others in aliases.items() for other in others}
        groups: dict[str, dict[tuple[object, ...], list[ImageEntry]]] = {}
        for entry in images:
            inside = dict(entry.packages)
            if entry.framework is not None and entry.version is not None:
                inside.setdefault(package_of(entry.framework), entry.version)
            for distribution, version in inside.items():
                for package in {distribution, provides.get(distribution, distribution)}:
                    groups.setdefault(package, {}).setdefault((version, *_profile(entry)), []).append(entry)
        self._groups = {package: [Alike(g) for g in profiles.values()] for package, profiles in groups.items()}

    def holding(self, package: str) -> Sequence[Alike]:
        """Return the groups of images that have ``package`` inside."""
        return self._groups.get(package, ())


def _profile(entry: ImageEntry) -> tuple[object, ...]:
    mpi = (entry.mpi.family, entry.mpi.version) if entry.mpi else None
    return (
        entry.architecture,
        entry.microarchitecture,
        entry.accelerator,
        entry.toolkit,
        entry.driver,
        mpi,
        entry.framework,
        entry.version,
    )
