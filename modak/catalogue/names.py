"""From the names that drivers and people use to the catalogue's."""

from functools import lru_cache

from modak.catalogue.catalogue import Catalogue


def accelerator_name(model: str, catalogue: Catalogue) -> str:
    """Return the catalogue's name of an accelerator; the model itself, in small letters, when it has none."""
    known = tuple((name, (name, *entry.also)) for name, entry in catalogue.accelerators.items())
    return _longest(model.lower(), known) or model.lower()


@lru_cache(maxsize=256)
def _longest(model: str, known: tuple[tuple[str, tuple[str, ...]], ...]) -> str | None:
    """Of several that fit, the longest word decides: a 1080 Ti is no 1080."""
    plain = model.replace("-", " ")
    fitting = [
        (len(word), name)
        for name, words in known
        for word in words
        if f" {word.lower().replace('-', ' ')} " in f" {plain} "
    ]
    return max(fitting)[1] if fitting else None
