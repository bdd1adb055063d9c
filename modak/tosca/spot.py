"""A value of a blueprint together with the place where it was written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modak.documents.faults import dotted
from modak.documents.reading import Document, Location


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong, and where."""

    file: str
    line: int
    text: str
    """The dotted place in the blueprint and one sentence."""
    tools: tuple[str, ...] = ()
    """The tools that reject it where TOSCA does not; see modak.tosca.profiles."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Spot:
    """A value, the document that it stands in, and its location there."""

    document: Document
    location: Location
    value: Any

    @property
    def name(self) -> str:
        """The key or index by which its parent holds it."""
        return str(self.location[-1]) if self.location else ""

    @property
    def place(self) -> str:
        """Where it stands, as users write it; the key topology_template is left out."""
        location = self.location[1:] if self.location[:1] == ("topology_template",) else self.location
        return dotted(location)

    @property
    def is_date(self) -> bool:
        """Tell whether YAML takes what is written there for a date, which some tools do not make text again."""
        if not isinstance(self.value, str) or not re.match(r"\d{4}-\d", self.value):
            return False
        node = self.document.node(self.location)
        return node is not None and node.tag == "tag:yaml.org,2002:timestamp"

    def at(self, key: int | str) -> "Spot":
        """Return the value below ``key``."""
        return Spot(self.document, (*self.location, key), self.value[key])

    def get(self, key: str) -> "Spot | None":
        """Return the value below ``key``; None when this is no mapping or has no such key."""
        return self.at(key) if isinstance(self.value, dict) and key in self.value else None

    def items(self) -> Iterator["Spot"]:
        """Yield every value of a mapping or list; nothing for any other value."""
        if isinstance(self.value, dict):
            yield from (self.at(key) for key in self.value)
        elif isinstance(self.value, list):
            yield from (self.at(index) for index in range(len(self.value)))

    def below(self, *keys: str) -> Iterator["Spot"]:
        """Yield the values of the mapping or list that ``keys`` lead to; nothing where there is none."""
        spot: Spot | None = self
        for key in keys:
            spot = spot.get(key) if spot else None
        if spot:
            yield from spot.items()

    def fault(self, sentence: str, key: int | str | None = None, *, tools: tuple[str, ...] = ()) -> Fault:
        """Return a fault here, at the line of ``key`` where it is given; ``tools`` reject it where TOSCA does not."""
        location = self.location if key is None else (*self.location, key)
        file, _, line = self.document.locate(location).rpartition(":")
        return Fault(file, int(line), f"{self.place}: {sentence}" if self.place else sentence, tools)
