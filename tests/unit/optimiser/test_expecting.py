"""What levers may be expected to bring, by what they brought other workloads."""

import dataclasses

import pytest

from lawful import HERE, measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.application import Workload
from modak_deploy.optimiser.expecting import Usual
from modak_deploy.performance.matching import Work
from modak_deploy.performance.records import Table

LEVERS = ["malloc-hugepages", "tf-xla-auto", "jemalloc"]
WORK = Work(
    type="ai_training",
    framework="keras",
    workload=Workload(model="new", units=4),
    microarchitecture=HERE.microarchitecture,
    cpu_model=HERE.cpu_model,
    cores=HERE.cores,
    accelerator=None,
    accelerators=0,
)


def usual(table, work=WORK):
    return Usual(table, load_catalogue(), work).at_least(LEVERS)


def test_what_usually_gains_is_expected_to():
    """By the law huge pages make units 1.25 times as fast, XLA makes them slower, and jemalloc was not measured."""
    expected = usual(measured(8, spread=0.0))
    assert expected == {"malloc-hugepages": pytest.approx(1.25, abs=0.002)}


def test_a_quarter_of_the_others_gained_less():
    gains = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    records = []
    for record in measured(len(gains), spread=0.0).records:
        gain = gains[int(record.workload.model.removeprefix("net-"))]
        factor = 1.25 / gain if "malloc-hugepages" in record.configuration.levers else 1.0
        runs = [run.model_copy(update={"later": [unit * factor for unit in run.later]}) for run in record.runs]
        records.append(record.model_copy(update={"runs": runs}))
    assert usual(Table(records)) == {"malloc-hugepages": pytest.approx(1.1, abs=0.002)}
    typical = Usual(Table(records), load_catalogue(), WORK).typical(LEVERS)
    assert typical == {"malloc-hugepages": pytest.approx(1.3, abs=0.002)}


def test_the_workload_itself_and_few_others_tell_nothing():
    assert usual(measured(3)) == {}
    own = dataclasses.replace(WORK, workload=Workload(model="net-0", units=4))
    assert usual(measured(4), own) == {}
    assert usual(measured(4)).keys() == {"malloc-hugepages"}


@pytest.mark.parametrize(
    "other", [{"type": "ai_inference"}, {"framework": "pytorch"}, {"accelerator": "nvidia-h100-sxm", "accelerators": 1}]
)
def test_other_kinds_of_work_and_of_devices_tell_nothing(other):
    assert usual(measured(8), dataclasses.replace(WORK, **other)) == {}


def test_of_a_large_store_what_ships_is_taken_alone():
    class Large(Table):
        count = 10**6

        def all_records(self):
            raise AssertionError("each Plan would read a million records")

    inference = dataclasses.replace(WORK, type="ai_inference", framework="pytorch")
    catalogue = load_catalogue()
    assert Usual(Large([]), catalogue, inference).at_least(["pytorch-openvino"])["pytorch-openvino"] > 1
