"""What clients write for what is not given: null and blank texts, at every place of a document."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobmodel_parts import DATA, answered
from modak_deploy.errors import ModakError


def _places(section: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in section.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _places(value, (*above, key))


def _changed(given: dict[str, Any], place: tuple[str, ...], change: dict[str, Any]) -> dict[str, Any]:
    """Return the document with ``change`` in the place's section, and without what stands there."""
    made = copy.deepcopy(given)
    section = made["job"]
    for key in place[:-1]:
        section = section[key]
    del section[place[-1]]
    section.update(change)
    return made


def _end(data: dict[str, Any]) -> tuple[str, str | None] | str:
    """Return the scripts, or what is wrong."""
    try:
        done = answered(data)
    except ModakError as error:
        return str(error)
    return done.job_script, done.build_script


@pytest.mark.parametrize("name", ["solver", "training"])
def test_what_is_blank_counts_as_absent(name: str) -> None:
    given = json.loads((DATA / f"{name}.json").read_text())
    for place in _places(given["job"]):
        absent = _end(_changed(given, place, {}))
        for blank in (None, " "):
            assert _end(_changed(given, place, {place[-1]: blank})) == absent, (place, blank)
