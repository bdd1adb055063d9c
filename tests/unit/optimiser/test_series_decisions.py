"""A decision on the series of a store is the one on all of its records."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_deploy.errors import ModakError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Measurements, Table, Together, load_measurements
from modak_deploy.performance.series import FEW
from modak_deploy.performance.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHIPPED = [
    record
    for record in load_measurements().of_workload("mnist-cnn")
    if isinstance(record, Measurement) and record.framework == "keras" and record.runs
]
LEVERS = sorted({tuple(record.configuration.levers) for record in SHIPPED})


def _deployment(units: int) -> Deployment:
    workload = {"model": "mnist-cnn", "dataset": "uci-digits", "units": units, "samples": 1437, "batch": 128}
    application = {"name": "digits", "script": "train.py", "framework": {"name": "keras"}, "workload": workload}
    return Deployment.model_validate(
        {"application": application, "target": {"name": "here"}, "request": {"numerics": "relaxed"}}
    )


FACTS = Facts.model_validate(
    {
        "hostname": "here",
        "glibc": "2.36",
        "python": "/usr/bin/python3",
        "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0", "jax": "0.10.2"},
        "node": {
            "cores": 2,
            "cpu_model": "AMD EPYC",
            "microarchitecture": "x86_64_v4",
            "cpu_features": ["avx512_bf16"],
        },
    }
)


def _jobs(counts: dict[int, int], factors: Sequence[float]) -> list[Measurement]:
    """Return so many jobs of each shipped record's configuration; their seconds differ by ``factors`` in turn."""
    found: list[Measurement] = []
    for place, count in counts.items():
        record = SHIPPED[place]
        for number in range(count):
            run = record.runs[number % len(record.runs)]
            factor = factors[(place + number) % len(factors)]
            total, first = (None if s is None else s * factor for s in (run.total, run.first))
            later = [seconds * factor for seconds in run.later]
            update = {"total": total, "first": first, "later": later, "block": None, "time": 1_700_000_000 + number}
            source = f"job {place}.{number} of digits on here"
            provenance = record.provenance.model_copy(
                update={"source": source, "date": f"2026-02-{1 + number % 28:02}"}
            )
            found.append(record.model_copy(update={"runs": [run.model_copy(update=update)], "provenance": provenance}))
    return found


def _plan(measurements: Measurements, units: int) -> Plan | str:
    try:
        return make_plan(_deployment(units), FACTS, [], now=NOW, measurements=measurements)
    except ModakError as error:
        return str(error)


def _both(counts: dict[int, int], factors: Sequence[float], units: int) -> tuple[Plan | str, Plan | str]:
    """Return the decision on every record, and that on the store."""
    records = _jobs(counts, factors)
    shipped = load_measurements()
    store = Store("sqlite://")
    store.add(records)
    try:
        whole = _plan(Together([Table([*shipped.all_records(), *records])]), units)  # which reads it record by record
        return whole, _plan(Together([shipped, store]), units)
    finally:
        store.close()


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in _flat(part, f"{place}.{key}").items()}
    if isinstance(value, list):
        return {k: v for number, part in enumerate(value) for k, v in _flat(part, f"{place}.{number}").items()}
    return {place: value}


def _decided(plan: Plan | str, *, phases: bool) -> Any:
    if isinstance(plan, str):
        return plan
    data = plan.model_dump(mode="json", exclude={"versions"})
    flat = _flat(data)
    if not phases:
        flat = {place: v for place, v in flat.items() if place.rpartition(".")[2] not in ("start", "compile", "steady")}
    return flat


def _assert_same(stored: Plan | str, whole: Plan | str, *, phases: bool) -> None:
    """Four digits are kept of each figure, and rounding may fall to either side."""
    ours, theirs = _decided(stored, phases=phases), _decided(whole, phases=phases)
    if isinstance(theirs, dict):
        theirs = {place: pytest.approx(v, rel=2e-3) if isinstance(v, float) else v for place, v in theirs.items()}
    assert ours == theirs


FACTORS = st.lists(st.floats(0.8, 1.3), min_size=3, max_size=9)
PLACES = st.integers(0, len(SHIPPED) - 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PLACES, st.integers(1, FEW), max_size=6), FACTORS, st.integers(1, 100))
def test_few_records_decide_as_each_of_them(counts: dict[int, int], factors: list[float], units: int) -> None:
    whole, stored = _both(counts, factors, units)
    _assert_same(stored, whole, phases=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PLACES, st.integers(1, 40), max_size=6), FACTORS)
def test_series_decide_as_all_of_their_records(counts: dict[int, int], factors: list[float]) -> None:
    whole, stored = _both(counts, factors, SHIPPED[0].workload.units)
    _assert_same(stored, whole, phases=False)
