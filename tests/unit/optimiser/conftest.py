"""Base documents, measurements and the one change that a case makes."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts
from modak_deploy.performance.records import SHIPPED, Table, read_records

DATA = Path(__file__).parents[2] / "data" / "optimiser"


def _changed(bases: dict[str, Any], base: str, change: dict[str, Any]) -> tuple[Deployment, Facts]:
    """Return the base's document and facts with each dotted place set to its value; null removes it."""
    data = copy.deepcopy(bases[base])
    for place, value in change.items():
        *parents, key = place.split(".")
        where = data
        for parent in parents:
            where = where[int(parent)] if isinstance(where, list) else where.setdefault(parent, {})
        if value is None:
            del where[key]
        else:
            where[key] = value
    return Deployment.model_validate(data["deployment"]), Facts.model_validate(data["facts"])


@pytest.fixture(scope="session")
def bases():
    """Return the base documents."""
    return yaml.safe_load((DATA / "bases.yaml").read_text())


@pytest.fixture(scope="session")
def changed(bases):
    """Return the function that makes a document and facts from a base's name and a change."""
    return lambda base, change: _changed(bases, base, change)


@pytest.fixture(scope="session")
def measured():
    """Return the measurements that the cases rest on."""
    published = [record for path in sorted(SHIPPED.glob("published-*.jsonl")) for record in read_records(path)]
    return Table([*read_records(DATA / "digits.jsonl"), *published])
