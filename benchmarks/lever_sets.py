"""Which sets of PyTorch's levers are measured together: those of ``lever_sets.yaml``, if such levers can be."""

from itertools import combinations
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from modak_deploy.documents.reading import read_document
from modak_deploy.documents.validation import check
from modak_deploy.launch.lever import levers
from modak_deploy.model.base import Model

SETS = Path(__file__).with_suffix(".yaml")


def _fits(names: list[str]) -> list[str]:
    """Return the names of a set of levers that can be on together."""
    table = {lever.name: lever for lever in levers("pytorch")}
    for name in names:
        if name not in table:
            raise ValueError(f"the lever '{name}' is not supported by PyTorch's part of the launcher")
    for one, other in combinations(names, 2):
        if one == other:
            raise ValueError(f"names '{one}' twice")
        if table[one].excludes(table[other]):
            raise ValueError(f"'{one}' and '{other}' cannot be on together")
    return names


def _differ(sets: list[list[str]]) -> list[list[str]]:
    for one, other in combinations(sets, 2):
        if set(one) == set(other):
            raise ValueError(f"{' + '.join(other)} stands there twice")
    return sets


class _File(Model):
    """The file."""

    sets: Annotated[list[Annotated[list[str], Field(min_length=2), AfterValidator(_fits)]], AfterValidator(_differ)]


def read_sets(path: Path = SETS) -> list[list[str]]:
    """Return the sets of a file; InputError names the line of what is wrong with it."""
    document = read_document(path)
    return check(_File, document.data, origin=str(path), locate=document.locate).sets
