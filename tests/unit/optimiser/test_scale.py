"""The layout of a job with many ranks, as a table."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from modak.errors import ModakError
from modak.model.application import Workload
from modak.model.deployment import Deployment
from modak.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak.model.target import Facts
from modak.optimiser import make_plan
from modak.performance.records import Table

CASES = yaml.safe_load((Path(__file__).parents[2] / "data" / "optimiser" / "scale.yaml").read_text())
FACTS = {
    "hostname": "login",
    "scheduler": "slurm",
    "node": {"cores": 16, "microarchitecture": "zen2", "cpu_model": "AMD EPYC 7742"},
    "partitions": [{"name": "batch", "default": True, "nodes": 8}],
}


def measured(law):
    """Return records at 1 to 64 ranks whose times follow the law."""
    records = []
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        seconds = eval(law, {"__builtins__": {}}, {"r": ranks})  # noqa: S307 - the law stands in the test's own table
        records.append(
            Measurement(
                type="hpc",
                workload=Workload(model="solver", unit="run"),
                hardware=Hardware(microarchitecture="zen2", cpu_model="AMD EPYC 7742", cores=16),
                configuration=Configuration(nodes=-(-ranks // 8), ranks=ranks),
                runs=[Run(total=seconds)],
                provenance=Provenance(source="a law", date="2026-01-01", method="computed"),
            )
        )
    return Table(records)


def plan_of(case):
    workload = {"model": "solver", "unit": "run"}
    if "share" in case:
        workload["parallel_share"] = case["share"]
    deployment = Deployment.model_validate(
        {
            "application": {
                "name": "solve",
                "type": case.get("type", "hpc"),
                "executable": "/opt/solve",
                "workload": workload,
            },
            "target": {"name": "hawk", "type": "slurm", "host": "login.example.org"},
            "request": case.get("request", {}),
            "job": case.get("job", {"nodes": 8, "ranks": 64}),
        }
    )
    table = measured(case["law"]) if "law" in case else Table([])
    return make_plan(
        deployment, Facts.model_validate(FACTS), [], now=datetime(2026, 1, 1, tzinfo=UTC), measurements=table
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    if "error" in case:
        with pytest.raises(ModakError, match=case["error"]):
            plan_of(case)
        return
    plan = plan_of(case)
    resources = plan.chosen.resources
    for key, value in case["expect"].items():
        match key:
            case "ranks" | "nodes" | "threads":
                assert getattr(resources, key) == value, plan.reason
            case "basis":
                assert plan.prediction.basis == value
            case "seconds":
                assert plan.prediction.seconds == pytest.approx(value, rel=0.01)
            case "words":
                assert all(str(words) in plan.reason for words in value), plan.reason
            case "lacks":
                assert not any(str(words) in plan.reason for words in value), plan.reason
    assert resources.ranks <= resources.nodes * resources.ranks_per_node
    assert (resources.nodes - 1) * resources.ranks_per_node < resources.ranks
