"""Seconds that are carried over from other hardware, held against what was measured on both."""

import itertools
import statistics
from collections import defaultdict

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.model.measurement import Hardware, Measurement
from modak_deploy.optimiser.carrying import BESIDES, between
from modak_deploy.performance.records import load_measurements

CATALOGUE = load_catalogue()


def seconds(record: Measurement) -> float | None:
    totals = [run.total for run in record.runs if run.total is not None]
    return statistics.median(totals) if totals else record.summary.mean if record.summary else None


def test_the_measurements_that_ship_lie_inside() -> None:
    """Of all pairs that differ in hardware alone, those that the catalogue has figures of.

    Whole runs with whole runs: what is made ready in a trial finds the libraries and caches of those before it.
    """
    alike: dict[str, list[Measurement]] = defaultdict(list)
    for record in load_measurements().all_records():
        if isinstance(record, Measurement):
            configuration = record.configuration.model_dump_json(exclude={"image", "runtime"})
            key = (record.type, record.framework, record.workload.model_dump_json(), configuration)
            alike[str((*key, record.hardware.accelerators > 0, record.kind))].append(record)
    outside: list[float] = []
    for first, other in (pair for group in alike.values() for pair in itertools.permutations(group, 2)):
        there, here = seconds(first), seconds(other)
        factor = between(first.hardware, other.hardware, CATALOGUE)
        if first.hardware == other.hardware or there is None or here is None or factor is None:
            continue
        assert factor.low <= here / there <= factor.high, (first.workload, first.hardware, other.hardware)
        outside.append(max(here / there / factor.high, factor.low * there / here) * BESIDES)
    assert len(outside) >= 12
    assert 1.8 < max(outside) < 1.95, "the figure of BESIDES says how far the worst lies outside"


def node(cores: int | None, microarchitecture: str | None) -> Hardware:
    return Hardware(cores=cores, microarchitecture=microarchitecture)


def test_more_cores_may_bring_all_or_nothing() -> None:
    factor = between(node(2, "zen4"), node(8, "zen4"), CATALOGUE)
    assert factor is not None
    assert (factor.low * BESIDES, factor.value, factor.high / BESIDES) == pytest.approx((0.25, 0.5, 1))
    back = between(node(8, "zen4"), node(2, "zen4"), CATALOGUE)
    assert back is not None
    assert back.value == pytest.approx(1 / factor.value)


@pytest.mark.parametrize("here", [node(8, None), node(8, "unheard_of"), node(None, "zen4")])
def test_what_nobody_knows_is_not_carried(here: Hardware) -> None:
    assert between(node(2, "zen4"), here, CATALOGUE) is None
    assert between(here, node(2, "zen4"), CATALOGUE) is None
