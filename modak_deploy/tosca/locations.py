"""A value of a blueprint together with where it was written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modak_deploy.diagnostics import Diagnostic, Location, Text
from modak_deploy.documents.reading import Document


@dataclass(frozen=True)
class SourceLocation:
    """A value, the document that it stands in, and its location there."""

    document: Document
    location: Location
    value: Any

    @property
    def name(self) -> str:
        """The key or index by which its parent holds it."""
        return str(self.location[-1]) if self.location else ""

    @property
    def path(self) -> Location:
        """Its location as users know it; the key topology_template is left out."""
        return self.location[1:] if self.location[:1] == ("topology_template",) else self.location

    @property
    def is_date(self) -> bool:
        """Tell whether YAML takes what is written there for a date, which some tools do not make text again."""
        if not isinstance(self.value, str) or not re.match(r"\d{4}-\d", self.value):
            return False
        node = self.document.node(self.location)
        return node is not None and node.tag == "tag:yaml.org,2002:timestamp"

    def at(self, key: int | str) -> "SourceLocation":
        """Return the value below ``key``."""
        return SourceLocation(self.document, (*self.location, key), self.value[key])

    def get(self, key: str) -> "SourceLocation | None":
        """Return the value below ``key``; None when this is no mapping or has no such key."""
        return self.at(key) if isinstance(self.value, dict) and key in self.value else None

    def items(self) -> Iterator["SourceLocation"]:
        """Yield every value of a mapping or list; nothing for any other value."""
        if isinstance(self.value, dict):
            yield from (self.at(key) for key in self.value)
        elif isinstance(self.value, list):
            yield from (self.at(index) for index in range(len(self.value)))

    def below(self, *keys: str) -> Iterator["SourceLocation"]:
        """Yield the values of the mapping or list that ``keys`` lead to; nothing where there is none."""
        element: SourceLocation | None = self
        for key in keys:
            element = element.get(key) if element else None
        if element:
            yield from element.items()

    def diagnostic(
        self,
        text: Text,
        key: int | str | None = None,
        *,
        hint: Text = "",
        code: str = "invalid-blueprint",
        tools: tuple[str, ...] = (),
    ) -> Diagnostic:
        """Return a problem here, at the line of ``key`` where it is given; ``tools`` reject it where TOSCA does not."""
        return self.adopted(Diagnostic(text, code, hint_text=hint, rejected_by=tools), key)

    def adopted(self, diagnostic: Diagnostic, key: int | str | None = None) -> Diagnostic:
        """Return a problem of the document that this value is translated into, as one of this value."""
        location = self.location if key is None else (*self.location, key)
        return diagnostic.at(self.document.locate(location), self.path)
