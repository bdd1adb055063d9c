"""Warnings of what the launcher does itself, which are not shown."""

import contextlib
import warnings
from typing import Any, Iterator

_NOTES = ("_filters_mutated", "_filters_mutated_lock_held")
"""Functions by which the warnings module notes that filters have changed: until Python 3.13, and from 3.14 on."""


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Show no warnings.

    Where filters have changed, Python forgets which warnings it has shown already, and shows the program's once more:
    that they change here is not noted, as they are soon what they were.
    """
    own: Any = {name: getattr(warnings, name) for name in _NOTES if hasattr(warnings, name)}
    for name in own:
        setattr(warnings, name, _not_noted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, function in own.items():
            setattr(warnings, name, function)


def _not_noted() -> None:
    """Do nothing."""
