"""The choice of an instance type: by time, by cost, by cost under a deadline, without what has no capacity."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.cloud import Estimate
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan, Prediction
from modak_deploy.optimiser import choose_target, keep, make_plan
from modak_deploy.optimiser.instances import Limits, plan_on_instance
from modak_deploy.optimiser.table import render
from modak_deploy.performance.records import Table

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CPUS = {"slow": ("AMD EPYC", 4.0, 0.1), "middle": ("Middle CPU", 1.0, 0.6), "fast": ("Fast CPU", 0.25, 4.0)}
"""Processor, seconds against those that were measured, price."""


@pytest.fixture(scope="session")
def types(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Three instance types, each faster and dearer than the one before, and one that is sold elsewhere alone."""
    lines = ["version: 1", "instances:"]
    for name, (cpu, _, price) in {**CPUS, "elsewhere": ("AMD EPYC", 1, 0.1)}.items():
        region = "there" if name == "elsewhere" else "here"
        lines.append(
            f"  - {{name: {name}, provider: aws, vcpus: 2, memory: 24G, microarchitecture: x86_64_v4, processor: {cpu},"
            f' prices: [{{region: {region}, hourly: {price}, date: "2026-01-01", source: s}}]}}'
        )
    path = tmp_path_factory.mktemp("catalogue") / "instances.yaml"
    path.write_text("\n".join(lines) + "\n")
    return load_catalogue([path])


@pytest.fixture(scope="session")
def spots(types: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """The same, with 'middle' at a third of its price as a spot instance that is taken back once in ten hours."""
    text = (
        "version: 1\ninstances:\n"
        "  - {name: middle, provider: aws, vcpus: 2, memory: 24G, microarchitecture: x86_64_v4, processor: Middle CPU,"
        ' prices: [{region: here, hourly: 0.6, date: "2026-01-01", source: s,'
        ' spot: {hourly: 0.2, interruptions: 0.1, date: "2026-01-02", source: t}}]}\n'
        "  - {name: fast, provider: aws, vcpus: 2, memory: 24G, microarchitecture: x86_64_v4, processor: Fast CPU,"
        ' prices: [{region: here, hourly: 4.0, date: "2026-01-01", source: s}]}\n'
    )
    path = tmp_path_factory.mktemp("spots") / "instances.yaml"
    path.write_text(text)
    return load_catalogue([path])


@pytest.fixture(scope="session")
def timed(measured: Table) -> Table:
    """What was measured, as if it had been measured on each type."""
    records: list[Any] = []
    for record in measured.of_workload("mnist-cnn"):
        if getattr(record, "runs", None) and record.hardware.cpu_model == "AMD EPYC":
            for cpu, factor, _ in CPUS.values():
                runs = [
                    run.model_copy(
                        update={
                            "total": run.total and run.total * factor,
                            "first": run.first and run.first * factor,
                            "later": [x * factor for x in run.later],
                        }
                    )
                    for run in record.runs
                ]
                hardware = record.hardware.model_copy(update={"cpu_model": cpu})
                records.append(record.model_copy(update={"runs": runs, "hardware": hardware}))
    return Table(records)


@pytest.fixture
def plan(changed: Any, types: Catalogue, timed: Table) -> Any:
    """Return the function that plans with these options of the request."""

    def make(
        request: dict[str, Any] | None = None,
        limits: Limits | None = None,
        catalogue: Catalogue | None = None,
        change: dict[str, Any] | None = None,
        **cloud: Any,
    ) -> Plan:
        software = {
            "python": "/opt/python/bin/python3",
            "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0", "jax": "0.10.2", "jaxlib": "0.10.2"},
            "glibc": "2.36",
        }
        names = ["slow", "middle", "fast"]
        described = {"provider": "aws", "region": "here", "software": software, "instance_types": names, **cloud}
        target = {"name": "cloud", "type": "cloud", "cloud": described}
        changes = {
            **(change or {}),
            "deployment.target": target,
            **{f"deployment.request.{k}": v for k, v in (request or {}).items()},
        }
        deployment: Deployment = changed("digits", changes)[0]
        known = catalogue or types
        return plan_on_instance(deployment, [], now=NOW, catalogue=known, measurements=timed, limits=limits)

    return make


def names(plan: Plan) -> list[str]:
    assert plan.instance is not None
    return [one.label for one in [plan.instance.chosen, *plan.instance.candidates]]


@pytest.mark.parametrize(
    ("request_", "order"),
    [
        ({}, ["fast", "middle", "slow"]),
        ({"objective": "cost"}, ["slow", "middle", "fast"]),
        ({"objective": "cost", "deadline": 30}, ["middle", "fast"]),
        ({"objective": "cost", "deadline": 5}, ["fast"]),
        ({"budget": 0.2}, ["middle", "slow"]),
    ],
)
def test_time_cost_deadline_and_budget_choose(plan: Any, request_: dict[str, Any], order: list[str]) -> None:
    chosen = plan({**request_, "numerics": "exact"})
    assert names(chosen)[: len(order)] == order
    assert chosen.instance.chosen.cost.low < chosen.instance.chosen.cost.value < chosen.instance.chosen.cost.high
    assert chosen.prediction.basis == "measurement"


def test_the_price_of_the_job_includes_the_start_of_its_instance(plan: Any) -> None:
    chosen = plan().instance.chosen
    assert chosen.cost.value == pytest.approx((chosen.seconds.value + 90) * chosen.hourly / 3600, rel=0.01)
    assert chosen.cost.unit == "USD"


def test_seconds_that_are_carried_over_are_not_said_to_be_within_the_deadline(plan: Any, types: Catalogue) -> None:
    sure = plan({"deadline": 30, "objective": "cost"})
    assert "middle has the least predicted cost within the deadline of 30 s" in sure.reason
    carried = plan({"deadline": 1}, change={"deployment.application.workload.batch": 64})
    assert carried.prediction.basis not in ("measurement", "trial", "model")
    assert "within the deadline" not in carried.reason
    assert "not known whether the deadline of 1 s suffices" in carried.reason


def test_nothing_keeps_to_the_deadline(plan: Any) -> None:
    with pytest.raises(
        InfeasibleError, match=r"no instance type of aws in here can do what was asked.*deadline of 1 s"
    ):
        plan({"deadline": 1})


def test_a_type_without_capacity_is_left_to_the_next(plan: Any) -> None:
    before = plan()
    after = plan(limits=Limits(unavailable={"fast": "InsufficientInstanceCapacity"}))
    assert names(after) == ["middle", "slow"]
    assert ("instance type fast", "InsufficientInstanceCapacity") in [(r.name, r.reason) for r in after.rejected]
    assert keep(after, before) == after
    assert keep(before, after) == after  # what is deployed stays while it can be had


def test_an_instance_that_is_there_decides(plan: Any) -> None:
    assert names(plan(limits=Limits(only="slow", unavailable={"slow": "no capacity"}))) == ["slow"]


def test_a_type_needs_a_price_in_the_region(plan: Any) -> None:
    with pytest.raises(InfeasibleError, match="elsewhere: the catalogue has no price of it in here"):
        plan(instance_types=["elsewhere"])
    with pytest.raises(InputError, match="no instance type 'fasst'; did you mean 'fast'"):
        plan(instance_types=["fasst"])


def test_the_table_shows_all_by_time_and_cost(plan: Any) -> None:
    text = render(plan())
    rows = [line.removeprefix("* ").split()[1] for line in text.splitlines() if line[2:].startswith("cloud  ")]
    assert rows == ["fast", "middle", "slow"]
    assert "it ends itself after 4:00:00, at 16 USD" in " ".join(text.split())
    assert "s, 2026-01-01" in " ".join(text.split())


@pytest.mark.parametrize(("objective", "first", "type_"), [("time", "cloud", "fast"), ("cost", "machine", "slow")])
def test_machine_slurm_and_instance_stand_in_one_table(
    plan: Any, changed: Any, objective: str, first: str, type_: str
) -> None:
    """One document, of which the target alone is another one each time."""
    outcomes = [plan({"objective": objective, "numerics": "exact"})]
    for name, kind, seconds, price in (("machine", "machine", 100.0, 0.01), ("cluster", "slurm", 60.0, 3.0)):
        change = {"deployment.target": {"name": name, "type": kind, "node": {"price": price}}}
        change |= {"deployment.request.objective": objective, "deployment.request.numerics": "exact"}
        deployment, facts = changed("digits", change)
        if kind == "slurm":
            facts = facts.model_copy(update={"scheduler": "slurm"})
        made = make_plan(deployment, facts, [], now=NOW)
        told = Prediction(seconds=seconds, low=seconds - 5, high=seconds + 5, basis="measurement")
        outcomes.append(made.model_copy(update={"prediction": told}))
    text = render(choose_target(outcomes))
    table = [line.removeprefix("* ").split() for line in text.splitlines() if line.startswith(("* ", "  "))]
    rows = {tuple(cells[:2]): cells[2:] for cells in table if len(cells) > 5}
    assert {("machine", "machine"), ("cluster", "slurm"), ("cloud", type_)} <= rows.keys(), text
    assert rows["machine", "machine"][0] == "100"
    assert rows["cluster", "slurm"][0] == "60"
    assert f"* {first} " in text, text


def test_unknown_times_take_the_cheapest_and_say_so(changed: Any, types: Catalogue) -> None:
    target = {"name": "c", "type": "cloud", "cloud": {"provider": "aws", "region": "here"}}
    change = {"deployment.target": target, "deployment.application.framework": None}
    change |= {"deployment.application.script": None, "deployment.application.executable": "run"}
    change |= {"deployment.application.type": "hpc", "deployment.request": {}}
    deployment = changed("digits", change)[0]
    chosen = plan_on_instance(deployment, [], now=NOW, catalogue=types, measurements=Table([]))
    assert names(chosen) == ["slow", "middle", "fast"]
    assert "no time is known on any instance type, and slow is the cheapest of 3" in chosen.reason


def test_the_shipped_types_are_right() -> None:
    from modak_deploy.catalogue.catalogue import DATA
    from modak_deploy.catalogue.checking import check_instances

    assert Path(DATA / "instances_aws.yaml").is_file()
    check_instances(load_catalogue())


SPOT = {"spot": {}, "instance_types": ["middle", "fast"]}


@pytest.mark.parametrize(
    ("request_", "cloud", "order"),
    [
        ({"objective": "cost"}, {}, ["middle spot", "middle", "fast", "fast spot"]),
        ({"objective": "time"}, {}, ["fast", "fast spot", "middle", "middle spot"]),
        ({"objective": "cost"}, {"spot": {"only": True}}, ["middle spot", "fast spot"]),
        ({"objective": "cost", "deadline": 150}, {}, ["middle", "fast"]),
        ({"objective": "cost"}, {"spot": None}, ["middle", "fast"]),
    ],
)
def test_spot_instances_are_candidates_where_they_are_asked_for(
    plan: Any, spots: Catalogue, request_: dict[str, Any], cloud: dict[str, Any], order: list[str]
) -> None:
    assert names(plan(request_, catalogue=spots, **{**SPOT, **cloud})) == order


def test_a_spot_instance_is_stated_with_its_risk(plan: Any, spots: Catalogue) -> None:
    made = plan({"objective": "cost"}, catalogue=spots, **SPOT)
    chosen = made.instance.chosen
    hours = (chosen.seconds.value + 90) / 3600
    assert chosen.interruption == pytest.approx(1 - 2.718281828 ** (-0.1 * hours), rel=0.01)
    assert chosen.cost.value == pytest.approx(0.2 * hours * (1 + 0.05 * hours), rel=0.01)
    assert (made.instance.price_date, made.instance.price_source) == ("2026-01-02", "t")
    assert "aws may take the instance back, with a probability of" in made.reason
    assert "starts again from its beginning, 3 times at most" in made.reason
    unknown = plan({"objective": "cost"}, catalogue=spots, spot={"only": True}, instance_types=["fast"])
    assert "with a probability that is not known" in unknown.reason
    assert unknown.instance.chosen.interruption is None


def test_a_budget_pays_for_all_restarts(plan: Any, spots: Catalogue) -> None:
    made = plan({"objective": "cost", "budget": 0.4}, catalogue=spots, **SPOT)
    assert (names(made)[0], made.instance.lease) == ("middle spot", 1800)
    assert made.instance.maximum_cost == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("request_", "cloud", "units", "reason"),
    [
        ({}, {}, 60000, "ends itself after 14400 s, for neither job.wall_time nor target.cloud.lease is given"),
        (
            {},
            {"lease": 1000},
            2000,
            "predicted to take 1214 s with the start of its instance, which ends itself by",
        ),
        ({"budget": 0.1925}, {}, 2000, "ends itself after 1155 s, for which the budget of 0.1925 pays"),
        ({"budget": 0.25}, {}, 2000, None),
        ({}, {"lease": 40000}, 60000, None),
    ],
)
def test_a_job_does_not_outlive_its_instance(
    plan: Any, request_: dict[str, Any], cloud: dict[str, Any], units: int, reason: str | None
) -> None:
    change = {"deployment.application.workload.units": units}
    request_ = {**request_, "numerics": "exact"}
    if reason is None:
        assert names(plan(request_, change=change, instance_types=["middle"], **cloud)) == ["middle"]
        return
    with pytest.raises(InfeasibleError, match=reason):
        plan(request_, change=change, instance_types=["middle"], **cloud)


def test_seconds_that_are_carried_over_may_outlive_an_instance_and_the_plan_says_so(plan: Any) -> None:
    change = {"deployment.application.workload.batch": 64, "deployment.application.workload.units": 60000}
    made = plan({"numerics": "exact"}, change=change, instance_types=["middle"])
    assert made.prediction.basis not in ("measurement", "trial", "model")
    assert "with the start of its instance, which ends itself after 14400 s" in made.reason


def test_a_lack_of_spot_capacity_leaves_the_type_on_demand(plan: Any, spots: Catalogue) -> None:
    limits = Limits(unavailable={"middle spot": "InsufficientInstanceCapacity"})
    assert names(plan({"objective": "cost"}, limits, catalogue=spots, **SPOT))[0] == "middle"
    there = plan({"objective": "cost"}, Limits(only="middle spot"), catalogue=spots, **SPOT)
    assert names(there) == ["middle spot"]


def refused(made: Plan) -> dict[str, str]:
    return {rejected.name: rejected.reason for rejected in made.rejected}


def test_a_spot_instance_whose_lease_the_job_outlives_is_left_out(
    plan: Any, spots: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the budget, for each of four instances, has to pay for a whole run."""
    monkeypatch.setattr("modak_deploy.optimiser.instances.START", Estimate(value=2000, low=2000, high=2000))
    made = plan({"objective": "cost", "budget": 0.4}, catalogue=spots, **SPOT)
    assert names(made)[0] == "middle"
    assert "pays for 1800 s of each instance with all restarts" in refused(made)["instance type middle spot"]
    with pytest.raises(InfeasibleError, match=r"s at 0\.2 an hour for each of 4 instances"):
        plan({"objective": "cost", "budget": 0.15}, catalogue=spots, **SPOT)


def test_runs_that_are_lost_count_against_the_budget(
    plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modak_deploy.optimiser.instances.START", Estimate(value=180, low=180, high=180))
    (tmp_path / "instances.yaml").write_text(
        "version: 1\ninstances:\n"
        "  - {name: middle, provider: aws, vcpus: 2, memory: 24G, microarchitecture: x86_64_v4, processor: Middle CPU,"
        ' prices: [{region: here, hourly: 60, date: "2026-01-01", source: s,'
        ' spot: {hourly: 50, interruptions: 60, date: "2026-01-02", source: t}}]}\n'
    )
    often = load_catalogue([tmp_path / "instances.yaml"])
    made = plan({"budget": 16}, catalogue=often, spot={"restarts": 0}, instance_types=["middle"])
    assert names(made) == ["middle"]
    assert "with the runs that are lost it is expected to cost" in refused(made)["instance type middle spot"]


def test_where_no_time_is_known_the_cheapest_is_taken(
    plan: Any, spots: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modak_deploy.optimiser.instances.seconds_of", lambda prediction: None)
    made = plan(catalogue=spots, **SPOT)
    assert names(made)[:2] == ["middle spot", "middle"]
    assert "middle spot is the cheapest" in made.reason


def test_a_provider_without_spot_instances_refuses_them(plan: Any) -> None:
    with pytest.raises(InputError, match="openstack has no spot instances"):
        plan(provider="openstack", spot={})


def test_a_service_does_not_run_on_a_spot_instance(plan: Any, spots: Catalogue) -> None:
    service = {"deployment.application.service": {"port": 8000, "health": "/"}, "deployment.application.metrics": None}
    with pytest.raises(InfeasibleError, match="a service is not started again"):
        plan(catalogue=spots, spot={"only": True}, instance_types=["middle"], change=service)
