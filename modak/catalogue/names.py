"""From the names that drivers and people use to the catalogue's."""

from collections.abc import Iterable
from functools import lru_cache

from modak.catalogue.catalogue import Catalogue

_Known = tuple[tuple[str, tuple[str, ...]], ...]


def accelerator_name(model: str, catalogue: Catalogue) -> str:
    """Return the catalogue's name of an accelerator; the model itself, in small letters, when it has none."""
    known = tuple((name, (name, *entry.also)) for name, entry in catalogue.accelerators.items())
    return _longest(model.lower(), known) or model.lower()


def processor_name(model: str, catalogue: Catalogue) -> str | None:
    """Return the catalogue's name of a processor; None when it has none."""
    return _longest(model.lower(), tuple((name, (name, *entry.also)) for name, entry in catalogue.processors.items()))


@lru_cache(maxsize=256)
def _longest(model: str, known: _Known) -> str | None:
    """Of several that fit, the longest word decides: a 1080 Ti is no 1080."""
    text = f" {_plain(model)} "
    return max(_fitting(text, known), default=(0, None))[1]


def _fitting(text: str, known: _Known) -> Iterable[tuple[int, str]]:
    return ((len(word), name) for name, words in known for word in words if f" {_plain(word)} " in text)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("-", " ").replace("(r)", " ").split())
