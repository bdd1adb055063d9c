"""The layout of a job with many ranks, as a table."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from modak_deploy.errors import ModakError
from modak_deploy.model.application import Workload
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Ratio, Run
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table

OTHERS = yaml.safe_load((Path(__file__).parents[2] / "data" / "optimiser" / "scale_others.yaml").read_text())
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
    workload |= {key: case[key] for key in ("samples", "memory") if key in case}
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


def metis(law, change, ranks=(1, 2, 4, 16, 32, 64)):
    """Return records that follow a law, each with the changes by place."""
    for count in ranks:
        seconds = eval(law, {"__builtins__": {}}, {"r": count})  # noqa: S307 - the law stands in the test's own table
        record = {
            "type": "hpc",
            "workload": {"model": "metis", "dataset": "audikw_1", "unit": "run"},
            "hardware": {"microarchitecture": "zen2", "cpu_model": "AMD EPYC 7742", "cores": 16},
            "configuration": {"nodes": -(-count // 8), "ranks": count},
            "runs": [{"total": seconds}],
            "provenance": {"source": "a law", "date": "2026-01-01", "method": "computed"},
        }
        for place, value in change.items():
            *parents, key = place.split(".")
            part = record
            for parent in parents:
                part = part[parent]
            part[key] = value
        yield Measurement.model_validate(record)


def metis_plan(case, records, ranks=8, request=None):
    base = case.get("base", {})
    workload = {"model": "metis", "dataset": "audikw_1", "unit": "run"}
    workload |= {place.removeprefix("workload."): value for place, value in base.items()}
    application = {"name": "metis", "type": "hpc", "executable": "/opt/metis", "workload": workload}
    deployment = Deployment.model_validate(
        {
            "application": application,
            "target": {"name": "hawk", "type": "slurm", "host": "login.example.org"},
            "job": {"nodes": -(-ranks // 8), "ranks": ranks},
            "request": request or {},
        }
    )
    facts = Facts.model_validate({**FACTS, "glibc": "2.36", "packages": case.get("packages", {})})
    return make_plan(deployment, facts, [], now=datetime(2026, 1, 1, tzinfo=UTC), measurements=Table(records))


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case["name"])
def test_a_law_is_fitted_to_runs_that_differ_in_layout_alone(case):
    software = {"software": case["software"]} if "software" in case else {}
    own = list(metis("20 + 424 / r", {**case.get("base", {}), **software}))
    others = list(metis(case["law"], {**case.get("base", {}), **case["change"]}, (1, 2, 3, 5, 6, 7, 9, 16, 32, 64)))
    alone, beside = metis_plan(case, own), metis_plan(case, [*own, *others])
    assert alone.prediction.seconds == pytest.approx(73, rel=1e-3)
    assert (beside.prediction.seconds, beside.prediction.low, beside.prediction.high) == (
        alone.prediction.seconds,
        alone.prediction.low,
        alone.prediction.high,
    )
    assert beside.chosen.resources == alone.chosen.resources


def test_runs_that_differ_in_more_than_layout_are_no_law_but_are_told():
    others = list(metis("20 + 424 / r", {"configuration.levers": ["malloc-hugepages"]}))
    with pytest.raises(ModakError, match=r"nothing is known of how .*; 6 measurements of it with other levers, .* not"):
        metis_plan({}, others, request={"objective": "efficiency", "minimal_efficiency": 0.5})


def test_a_lever_that_is_required_has_a_law_of_its_own():
    own = list(metis("20 + 424 / r", {}))
    others = list(metis("10 + 212 / r", {"configuration.levers": ["malloc-hugepages"]}))
    plan = metis_plan({}, [*own, *others], request={"require_levers": ["malloc-hugepages"]})
    assert plan.prediction.seconds == pytest.approx(36.5, rel=1e-3)
    assert plan.chosen.levers == ["malloc-hugepages"]


@pytest.mark.parametrize(
    "request_", [{}, {"objective": "cost"}, {"objective": "efficiency", "minimal_efficiency": 0.1}], ids=str
)
def test_a_faster_option_is_taken_where_the_default_breaks_a_limit_at_every_layout(request_):
    records = list(metis("20 + 424 / r", {}))
    faster = list(metis("8 + 170 / r", {"configuration.levers": ["malloc-hugepages"]}))
    plan = metis_plan({}, [*records, *faster], 64, request={**request_, "deadline": 20})
    assert (plan.chosen.levers, plan.prediction.basis) == (["malloc-hugepages"], "measurement")
    assert plan.prediction.seconds == pytest.approx(8 + 170 / 64, rel=1e-3)
    assert plan.chosen.resources.ranks == 64
    with pytest.raises(
        ModakError, match=r"request\.deadline: no layout up to 64 ranks ends within the deadline of 5 s"
    ):
        metis_plan({}, [*records, *faster], 64, request={**request_, "deadline": 5})


def test_a_ratio_that_was_measured_keeps_no_limit():
    """It says nothing of seconds: 73 s of the default over 1.02 are not within the minute."""
    base = {"nodes": 1, "ranks": 8}
    ratio = {
        "type": "hpc",
        "workload": {"model": "metis", "dataset": "audikw_1", "unit": "run"},
        "hardware": {"microarchitecture": "zen2", "cpu_model": "AMD EPYC 7742", "cores": 16},
        "configuration": {**base, "levers": ["malloc-hugepages"]},
        "baseline": base,
        "quantity": "total",
        "low": 1.02,
        "high": 1.03,
        "provenance": {"source": "a page", "date": "2026-01-01", "method": "computed"},
    }
    records = [*metis("20 + 424 / r", {}), Ratio.model_validate(ratio)]
    with pytest.raises(ModakError, match=r"within the deadline of 60 s .* such as malloc-hugepages, is not known well"):
        metis_plan({}, records, request={"deadline": 60})
    plan = metis_plan({}, [Ratio.model_validate({**ratio, "low": 1.4, "high": 1.5})], request={"deadline": 60})
    assert (plan.prediction.basis, plan.prediction.seconds) == ("measurement", None)
    assert "not known whether the deadline of 60 s suffices, since no time was measured" in plan.reason


def test_a_configuration_keeps_the_layout_that_was_asked_for():
    records = list(metis("100 / r + 2 * (r - 1) / r + 0.5 * (r - 1)", {}))
    assert metis_plan({}, records, 64).chosen.resources.ranks == 16
    plan = metis_plan({}, records, 64, request={"configuration": {"levers": []}})
    assert plan.chosen.resources.ranks == 64
    assert plan.prediction.seconds is not None
    assert plan.reason.startswith("it is the configuration that the request names; its seconds are predicted by")


def test_one_rank_is_predicted_by_the_law_of_more():
    records = list(metis("20 + 424 / r", {}, (2, 4, 8, 16, 32, 64)))
    plan = metis_plan({}, records, ranks=1)
    assert (plan.prediction.basis, plan.chosen.resources.ranks) == ("model", 1)
    assert plan.prediction.seconds == pytest.approx(444, rel=1e-3)
    assert plan.prediction.low <= plan.prediction.seconds <= plan.prediction.high
    assert "its seconds are predicted by the law Amdahl, fitted to 6 runs" in plan.reason


def test_one_rank_of_which_nothing_is_known_stays_without_seconds():
    assert metis_plan({}, [], ranks=1).prediction.seconds is None


def test_the_efficiency_that_was_measured_counts():
    records = list(metis("20 + 424 / r", {}, (1, 2, 4, 8, 16, 32)))
    (slow,) = metis("444 / 32 / 0.45", {}, (32,))
    plan = metis_plan({}, [*records[:-1], slow], 32, request={"objective": "efficiency", "minimal_efficiency": 0.46})
    assert plan.chosen.resources.ranks == 24  # not measured, and by the law above it
    (fast,) = metis("444 / 32 / 0.47", {}, (32,))
    plan = metis_plan({}, [*records[:-1], fast], 32, request={"objective": "efficiency", "minimal_efficiency": 0.46})
    assert plan.chosen.resources.ranks == 32


def test_of_trials_the_run_counts_that_they_stand_for():
    """Their runs hold two units of the hundred: one that made them ready, and one that was timed."""
    records = []
    for record in measured("1000 / r + 5").all_records():
        unit = record.runs[0].total / 100
        run = Run(total=1.0 + 2 * unit + 1e-9, first=unit, later=[unit])
        workload = record.workload.model_copy(update={"units": 100})
        records.append(record.model_copy(update={"kind": "trial", "runs": [run], "workload": workload}))
    deployment = Deployment.model_validate(
        {
            "application": {
                "name": "solve",
                "type": "hpc",
                "executable": "/opt/solve",
                "workload": {"model": "solver", "unit": "run", "units": 100},
            },
            "target": {"name": "hawk", "type": "slurm", "host": "login.example.org"},
            "job": {"nodes": 6, "ranks": 48},
        }
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    plan = make_plan(deployment, Facts.model_validate(FACTS), [], now=now, measurements=Table(records))
    assert plan.prediction.seconds == pytest.approx(1 + 1000 / 48 + 5, rel=0.05), plan.prediction.evidence


@pytest.mark.parametrize("units", [10, 1000])
def test_what_is_done_once_does_not_grow_with_the_units(units):
    """Of 30 s of start nothing is repeated in a run of a hundred times the units."""
    records = []
    for record in measured("10 / r + 0.1").all_records():
        unit = record.runs[0].total
        run = Run(total=30.0 + 10 * unit + 1e-6, first=unit, later=[unit] * 9)
        workload = record.workload.model_copy(update={"units": 10})
        records.append(record.model_copy(update={"runs": [run], "workload": workload}))
    deployment = Deployment.model_validate(
        {
            "application": {
                "name": "solve",
                "type": "hpc",
                "executable": "/opt/solve",
                "workload": {"model": "solver", "unit": "run", "units": units},
            },
            "target": {"name": "hawk", "type": "slurm", "host": "login.example.org"},
            "job": {"nodes": 6, "ranks": 48},
        }
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    plan = make_plan(deployment, Facts.model_validate(FACTS), [], now=now, measurements=Table(records))
    assert plan.prediction.seconds == pytest.approx(30 + units * (10 / 48 + 0.1), rel=0.05), plan.prediction.evidence
