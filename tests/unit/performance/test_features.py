"""What the time model is told of hardware and levers."""

import math

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware
from modak_deploy.performance.features import Case, features, low_precision, of_phase, unknown
from modak_deploy.performance.matching import bf16_of

PROCESSORS = {"sapphirerapids": 32.0, "zen4": 2.0, "zen5": 2.0, "haswell": 2.0, "x86_64_v4": 2.0}
ACCELERATORS = {"a100-40gb": 16.0, "k80": 2.0, "v100": 7.94}


def inputs_on(hardware, *levers):
    workload = Workload(model="w", unit="call", units=9, flops_per_sample=1e9, bytes_per_sample=1e7, samples=1)
    case = Case("ai_inference", "pytorch", workload, hardware, Configuration(levers=list(levers)))
    return features(case, load_catalogue())


@pytest.mark.parametrize(("name", "ratio"), PROCESSORS.items())
def test_a_processor_has_the_arithmetic_of_its_microarchitecture(name, ratio):
    assert low_precision(Hardware(microarchitecture=name, cores=2), load_catalogue()) == ratio


@pytest.mark.parametrize(("name", "ratio"), ACCELERATORS.items())
def test_an_accelerator_has_that_of_its_data_sheet(name, ratio):
    hardware = Hardware(microarchitecture="haswell", accelerator=name, accelerators=1)
    assert low_precision(hardware, load_catalogue()) == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize(
    ("features", "units", "ratio"),
    [
        (["avx512f", "avx512_bf16", "amx_bf16"], "matrix", 32.0),
        (["avx512f", "avx512_bf16"], "vector", 2.0),
        (["asimd", "bf16"], "vector", 2.0),
        (["avx2"], None, 2.0),
    ],
)
def test_the_features_of_a_processor_tell_where_its_microarchitecture_does_not(features, units, ratio):
    """A virtual machine on Sapphire Rapids without waitpkg counts as Ice Lake (archspec 0.2.7)."""
    assert bf16_of(features) == units
    hardware = Hardware(microarchitecture="icelake", bf16=bf16_of(features), cores=2)
    assert low_precision(hardware, load_catalogue()) == ratio


def test_hardware_that_nobody_describes_is_as_usual():
    assert low_precision(Hardware(microarchitecture="z80"), load_catalogue()) == 2
    assert low_precision(Hardware(accelerator="tpu", accelerators=1), load_catalogue()) == 2


def test_arithmetic_tells_what_a_lower_precision_brings_and_nothing_of_exact_levers():
    matrix, vector = (Hardware(microarchitecture=name, cores=2) for name in ("sapphirerapids", "x86_64_v4"))
    low, exact, other = "pytorch-bf16-weights", "pytorch-openvino", "pytorch-dropout-masks"
    assert inputs_on(matrix, low)[f"live:{low} x arithmetic"] == pytest.approx(math.log(16))
    assert inputs_on(vector, low)[f"live:{low} x arithmetic"] == 0
    assert not [name for name in inputs_on(matrix, exact) if name.endswith("arithmetic")]
    assert not [name for name in inputs_on(matrix, other) if name.endswith("arithmetic")], "relaxed, and not in 16 bits"


def test_matrix_units_that_a_node_has_not_do_not_count():
    hardware = Hardware(microarchitecture="sapphirerapids", bf16="vector", cores=2)
    assert low_precision(hardware, load_catalogue()) == 2


@pytest.mark.parametrize(("flops", "moved"), [(5e-324, 5e-324), (1e-320, None), (1e308, 1.0), (1e9, 1e-300)])
def test_work_of_an_impossible_size_is_not_known(flops, moved):
    workload = Workload(model="w", flops_per_sample=flops, bytes_per_sample=moved, samples=2**60)
    case = Case("ai_inference", "pytorch", workload, Hardware(microarchitecture="zen4", cores=2), Configuration())
    assert features(case, load_catalogue()) is None


SIZES = {"flops", "roofline", "samples", "batch", "parameters", "layers"}


def test_starts_come_from_the_software_and_not_from_the_size_of_the_work():
    inputs = inputs_on(Hardware(microarchitecture="zen4", cores=2), "pytorch-openvino", "malloc-hugepages")
    live = {name for name in inputs if name.startswith("live:")}
    assert "live:pytorch-openvino" in live and "lever:malloc-hugepages" in inputs
    assert of_phase(inputs, "start").keys() == inputs.keys() - SIZES - live, "what is switched at a call comes later"
    assert of_phase(inputs, "compile").keys() == inputs.keys() - SIZES
    assert of_phase(inputs, "steady") == inputs


@pytest.mark.parametrize("name", ["runs:jax", "compiler:xla"])
@pytest.mark.parametrize(("mix", "share"), [({"convolution": 0.9, "dense": 0.1}, 0.4), ({"dense": 1.0}, -0.5), ({}, 0)])
def test_other_kernels_gain_by_the_share_of_convolutions(name, mix, share):
    workload = Workload(model="w", unit="call", units=9, flops_per_sample=1e9, samples=1)
    configuration = Configuration(framework="jax", compiler="xla")
    hardware = Hardware(microarchitecture="zen4", cores=2)
    inputs = features(Case("ai_training", "keras", workload, hardware, configuration, mix), load_catalogue())
    assert inputs is not None and inputs[f"{name} x convolution"] == pytest.approx(share)


def test_a_lever_that_is_not_known_has_its_usual_name_in_a_sentence():
    inputs = inputs_on(Hardware(microarchitecture="zen4", cores=2), "pytorch-openvino")
    ranges = {name: (value, value) for name, value in inputs.items() if not name.startswith("live:")}
    assert unknown(inputs, ranges, []) == "the model was fitted without 'lever:pytorch-openvino'"
