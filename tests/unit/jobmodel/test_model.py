"""Every field of the job model: its effect on the script of each scheduler, or its refusal by name."""

import json
import re
from typing import Any

import pytest

from jobmodel_parts import DATA, answered, document
from modak_deploy.errors import ModakError
from modak_deploy.jobmodel.model import JobDocument

ROWS: list[dict[str, Any]] = json.loads((DATA / "fields.json").read_text())
CASES = [
    (scheduler, row)
    for row in ROWS
    for scheduler in (row.get("schedulers") or ([None] if row["base"] == "training" else ["slurm", "torque"]))
]


def _expected(row: dict[str, Any], key: str, scheduler: str | None) -> Any:
    value = row.get(key)
    return value.get(scheduler) if isinstance(value, dict) else value


@pytest.mark.parametrize(("scheduler", "row"), CASES, ids=[f"{row['name']}-{scheduler}" for scheduler, row in CASES])
def test_field(scheduler: str | None, row: dict[str, Any]) -> None:
    change = dict(row.get("change", {}))
    if scheduler is not None and not any(key.startswith("target") for key in change):
        change["target"] = {"job_scheduler_type": scheduler}
    data = document(row["base"], change)
    error = _expected(row, "error", scheduler)
    if error is not None:
        with pytest.raises(ModakError) as refusal:
            answered(data)
        assert error in str(refusal.value)
        assert str(refusal.value).startswith("job.json: ")
        return
    done = answered(data)
    assert "says" not in row or row["says"] in done.assumed
    text = done.job_script + (done.build_script or "")
    lines = text.split("\n")
    missing = [part for part in _expected(row, "has", scheduler) or [] if part not in lines and part not in text]
    assert (missing, text if missing else "") == ([], "")
    assert [part for part in _expected(row, "lacks", scheduler) or [] if part in text] == []
    again = answered(done.document)
    assert _same_but_tags(again.document) == _same_but_tags(done.document)
    assert answered(again.document).document == again.document


def _same_but_tags(data: Any) -> str:
    """The image that was chosen is given the next time, which makes another tag of the same job."""
    return re.sub(r"[0-9a-f]{16}", "TAG", json.dumps(data))


def _places(schema: dict[str, Any], root: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for part in [schema, *schema.get("anyOf", [])]:
        if "$ref" in part:
            part = root["$defs"][part["$ref"].rpartition("/")[2]]
        for key, value in part.get("properties", {}).items():
            place = f"{prefix}/{key}" if prefix else key
            below = _places(value, root, place)
            found |= below or {place}
    return found


def test_every_field_has_a_row() -> None:
    schema = JobDocument.model_json_schema(by_alias=True)
    fields = {place.removeprefix("job/") for place in _places(schema, schema)}
    told = set()
    for row in ROWS:
        told |= _given(document(row["base"], row.get("change", {}))["job"])
    assert fields - told == set()


def _given(data: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in data.items():
        place = f"{prefix}/{key}" if prefix else key
        found |= {place} | (_given(value, place) if isinstance(value, dict) else set())
    return found


def test_an_efficiency_next_to_nothing_leaves_one_rank() -> None:
    asked = json.loads((DATA / "solver.json").read_text())
    asked["job"]["application"]["minimal_efficiency"] = 3e-309
    asked["job"]["optimisation"]["app_type-hpc"]["parallelisation-mpi"]["scaling_efficiency"] = 1e-309
    assert "#SBATCH --ntasks=1\n" in answered(asked).job_script
