"""On a cluster a job reserves the cores that its levers use, and its measurement is of that many."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table
from tried_parts import DEPLOYMENT, FACTS, NOW, recorded

CLUSTER = Facts.model_validate(
    {
        **FACTS.model_dump(mode="json", exclude_unset=True),
        "hostname": "login",
        "scheduler": "slurm",
        "partitions": [{"name": "batch", "default": True, "nodes": 8}],
    }
)


def plan(
    table: Table | None = None, job: dict[str, Any] | None = None, memory: int | None = None, **request: Any
) -> Plan:
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    if memory is not None:
        values["application"]["workload"]["memory"] = memory
    values["target"] = {"name": "hawk", "type": "slurm", "host": "login"}
    values["request"] |= request
    values["job"] = job or {}
    return make_plan(Deployment.model_validate(values), CLUSTER, [], now=NOW, measurements=table or Table([]))


@pytest.mark.parametrize(("lever", "cores"), [("one-thread", 1), ("threads-half", 4)])
def test_the_next_plan_knows_what_a_job_with_fewer_cores_took(tmp_path: Path, lever: str, cores: int) -> None:
    made = plan(configuration={"levers": [lever]})
    assert made.chosen.resources.threads == cores
    found = recorded(tmp_path, [], made=made, load=0.0)
    assert found[0].hardware.cores == cores
    table = Table([*found, *recorded(tmp_path, [], made=plan(configuration={"levers": []}), number=2, seconds=90.0)])
    after = plan(table)
    (known,) = [ranked.prediction for ranked in after.alternatives if ranked.candidate.levers == [lever]]
    assert (known.basis, known.seconds) == ("measurement", pytest.approx(60.0))
    assert known.gain is not None and known.gain.ratio == pytest.approx(1.5)


def test_a_job_that_had_fewer_cores_for_other_reasons_is_another_one(tmp_path: Path) -> None:
    made = plan(job={"cores_per_rank": 1}, configuration={"levers": []})
    after = plan(Table(recorded(tmp_path, [], made=made, load=0.0)))
    assert after.prediction.basis in ("rule", "modelled")


@pytest.mark.parametrize(("needed", "cores"), [(None, 4), (3 * 2**30, 4), (5 * 2**30 + 1, 6), (8 * 2**30, 8)])
def test_cores_that_bring_the_memory_stay_though_a_lever_does_not_use_them(needed: int | None, cores: int) -> None:
    made = plan(job={"memory_per_core": "1G"}, memory=needed, configuration={"levers": ["threads-half"]})
    assert made.chosen.resources.threads == cores
    assert made.chosen.environment["OMP_NUM_THREADS"] == "4"
