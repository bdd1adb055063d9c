"""Documents for the tests: a base with changes."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modak_deploy.jobmodel.answer import Answer, answer
from modak_deploy.jobmodel.site import load_sites

DATA = Path(__file__).parents[1] / "data" / "jobmodel"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BASES: dict[str, Any] = json.loads((DATA / "bases.json").read_text())


def document(base: str, change: dict[str, Any]) -> dict[str, Any]:
    """Return a base document with values replaced, or taken out where null, by their places below ``job``."""
    made: dict[str, Any] = copy.deepcopy(BASES[base])
    for place, value in change.items():
        section = made["job"]
        *path, last = place.split("/")
        for key in path:
            section = section.setdefault(key, {})
        if value is None:
            section.pop(last, None)
        else:
            section[last] = value
    return made


def answered(data: dict[str, Any]) -> Answer:
    """Return the answer, with the site of the tests."""
    return answer(data, sites=load_sites([DATA / "sites.yaml"]), now=NOW, origin="job.json")
