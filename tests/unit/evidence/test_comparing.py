"""Which records a report compares, and how many times as fast one configuration is as another."""

from typing import Any

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.evidence.comparing import Comparison, comparisons
from modak_deploy.evidence.workloads import workload_section
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run

LEVER = "malloc-hugepages"
OTHER = "omp-close"


def record(*seconds: float, levers: tuple[str, ...] = (), **changes: Any) -> Measurement:
    """Return a record of whole runs."""
    configuration = {"levers": list(levers), **changes.pop("configuration", {})}
    provenance = {"source": "a test", "date": "2026-01-01", "method": "computed", **changes.pop("provenance", {})}
    values = {
        "type": "ai_training",
        "framework": "pytorch",
        "workload": Workload(model="net", unit="epoch"),
        "hardware": Hardware(microarchitecture="zen2", cores=8),
        "configuration": Configuration.model_validate(configuration),
        "runs": [Run(total=value) for value in seconds],
        "provenance": Provenance.model_validate(provenance),
    }
    return Measurement.model_validate({**values, **changes})


def compared(*records: Measurement) -> list[Comparison]:
    """Return the comparisons that there is something to compare in."""
    return [comparison for comparison in comparisons(records, load_catalogue()) if comparison.others]


def gains(comparison: Comparison) -> dict[tuple[str, ...], float]:
    return {tuple(sample.configuration.levers): ratio.value for sample, ratio in comparison.gains}


def test_programs_of_two_frameworks_are_two_workloads() -> None:
    records = [
        record(seconds * factor, levers=levers, framework=name)
        for name, seconds in (("pytorch", 10.0), ("keras", 90.0))
        for levers, factor in (((), 1.0), ((LEVER,), 0.5))
    ]
    both = compared(*records)
    assert [comparison.baseline.seconds for comparison in both] == [pytest.approx(90), pytest.approx(10)]
    assert [gains(comparison) for comparison in both] == [{(LEVER,): pytest.approx(2)}] * 2
    assert "(pytorch, ai training, 1 epoch)" in both[1].title


def test_native_runs_of_two_versions_are_not_compared() -> None:
    """A lever was measured with the later version alone, which is twice as fast by itself."""
    image = {"runtime": "apptainer", "image": "pytorch-hub"}
    old, new = {"torch": "1.13.1", "numpy": "1.26.0"}, {"torch": "2.1.0", "numpy": "1.26.4"}
    comparison, *more = compared(
        record(20.0, 20.2, software=old, provenance={"date": "2023-01-01"}),
        record(10.0, 10.1, software=new),
        record(11.0, 11.1, levers=(LEVER,), software=new),
        record(10.5, 10.6, configuration=image, provenance={"date": "2026-02-01"}),
        record(5.0, 5.1, levers=(OTHER,), software={"numpy": "1.26.4"}, provenance={"date": "2026-02-01"}),
    )
    assert not more and comparison.title.endswith("1 epoch, with torch 2)")
    assert gains(comparison)[LEVER,] == pytest.approx(0.91, abs=0.01)
    assert gains(comparison)[()] == pytest.approx(0.95, abs=0.01), "the image stands beside the runs of its time"
    assert gains(comparison)[OTHER,] == pytest.approx(2, rel=0.02), "as does what names no other version"


@pytest.mark.parametrize("live", [True, False])
def test_what_jobs_tried_is_compared_within_each_job(live: bool) -> None:
    """The second job ran on a node that other work slowed to half."""

    def tried(job: int, slowed: float, seconds: float, *levers: str) -> Measurement:
        times = [slowed * seconds * (1 + 0.002 * n) for n in range(5)]
        runs = [Run(total=time, time=job, block=n if live else None) for n, time in enumerate(times)]
        source = {"source": f"job {job} of net on here"}
        return record(levers=levers, kind="trial", runs=runs, provenance=source)

    records = [tried(1, 1.0, 10.0), tried(1, 1.0, 9.0, LEVER), tried(2, 2.0, 10.0), tried(2, 2.0, 8.0, OTHER)]
    (comparison,) = compared(*records)
    assert gains(comparison) == {(LEVER,): pytest.approx(10 / 9), (OTHER,): pytest.approx(10 / 8)}
    chosen, gain = comparison.choice()
    assert (chosen.configuration.levers, gain) == ([OTHER], comparison.best)


@pytest.mark.parametrize("lost", [0, 2])
def test_a_run_that_was_left_out_does_not_mix_two_benchmarks(lost: int) -> None:
    """The machine was half as fast on the day of the second: a lever that brings nothing seemed to bring 49 %."""

    def measured(source: str, seconds: float, rounds: range, *levers: str) -> Measurement:
        runs = [Run(total=seconds * (1 + 0.1 * (n % 3) + 0.001 * len(levers)), block=n) for n in rounds]
        return record(levers=levers, runs=runs, provenance={"source": source})

    (comparison,) = compared(
        measured("a", 10.0, range(lost, 8)),
        measured("a", 10.0, range(8), LEVER),
        measured("b", 20.0, range(8)),
        measured("b", 10.0, range(8), OTHER),
    )
    assert gains(comparison) == {(LEVER,): pytest.approx(1.0, rel=0.01), (OTHER,): pytest.approx(2.0, rel=0.01)}
    assert all(0.99 < ratio.low / ratio.value < ratio.high / ratio.value < 1.01 for _, ratio in comparison.gains)


def test_the_fastest_comes_first_and_one_that_is_uncertain_is_not_chosen() -> None:
    (comparison,) = compared(
        record(10.0, 10.1, 9.9), record(9.0, 9.1, 8.9, levers=(OTHER,)), record(4.0, 12.0, levers=(LEVER,))
    )
    assert list(gains(comparison)) == [(LEVER,), (OTHER,)]
    assert comparison.choice()[0].configuration.levers == [OTHER]
    assert comparison.best == pytest.approx(comparison.gains[0][1].value)


@pytest.mark.parametrize(("rival", "sure"), [(8.0, "certainly"), (5.05, "perhaps")])
def test_the_fastest_is_certain_if_it_is_faster_than_all_others(rival: float, sure: str) -> None:
    """And not only than the baseline."""
    records = [record(10.0, 10.1, 9.9), record(5.0, 5.1, 4.9, levers=(LEVER,))]
    records.append(record(rival, rival + 0.1, rival - 0.1, levers=(OTHER,)))
    (comparison,) = compared(*records)
    answer = workload_section(comparison).answer
    assert f"native + {LEVER} was {sure} the fastest: 2.00 times as fast as native (" in answer
