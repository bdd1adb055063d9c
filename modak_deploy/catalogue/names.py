"""From the names that drivers and people use to the catalogue's."""

from collections.abc import Iterable
from functools import lru_cache

from modak_deploy.catalogue.catalogue import Catalogue

_Model = tuple[tuple[str, tuple[str, ...]], ...]


def accelerator_name(model: str, catalogue: Catalogue) -> str:
    """Return the catalogue's name of an accelerator; the model itself, in small letters, when it has none.

    A part of a GPU (MIG) has the GPU's name in its own, and a seventh of its speed: it is no such accelerator.
    """
    if " mig " in f" {_plain(model)} ":
        return model.lower()
    models = tuple((name, (name, *entry.also)) for name, entry in catalogue.accelerators.items())
    return _longest(model.lower(), models) or model.lower()


def processor_name(model: str, catalogue: Catalogue) -> str | None:
    """Return the catalogue's name of a processor; None when it has none."""
    return _longest(model.lower(), tuple((name, (name, *entry.also)) for name, entry in catalogue.processors.items()))


@lru_cache(maxsize=256)
def _longest(model: str, models: _Model) -> str | None:
    """Of several that fit, the longest word decides: a 1080 Ti is no 1080."""
    text = f" {_plain(model)} "
    return max(_fitting(text, models), default=(0, None))[1]


def _fitting(text: str, models: _Model) -> Iterable[tuple[int, str]]:
    return ((len(part), name) for name, parts in models for part in parts if f" {_plain(part)} " in text)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("-", " ").replace("(r)", " ").split())
