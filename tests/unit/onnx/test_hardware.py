"""Which execution provider is used, and what is said when one is missing."""

import pytest

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Hardware
from modak_deploy.onnx.hardware import PROVIDERS, available, choose, provider
from modak_deploy.onnx.manifest import Timing

HERE = Hardware(cpu_model="CPU X", microarchitecture="zen5", cores=2)
WITH_GPU = Hardware(cpu_model="CPU X", microarchitecture="zen5", cores=2, accelerator="GPU Y")


def timing(name, median, batch=1, hardware=HERE):
    return Timing(provider=provider(name).runtime, batch=batch, median=median, runs=5, hardware=hardware)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dev").mkdir()
    for device in ("nvidiactl", "kfd"):
        (tmp_path / "dev" / device).touch()
    return tmp_path


def names(choice):
    return [entry.name for entry in choice.providers]


def test_without_a_measurement_the_order_of_preference_counts(root, tmp_path):
    def first(*there):
        return names(choose("auto", there=[provider(name) for name in there], root=root))

    assert first("tensorrt", "cuda", "cpu") == ["cuda", "cpu"]
    assert first("migraphx", "rocm", "cpu") == ["migraphx", "cpu"]
    assert first("openvino", "cpu") == ["cpu"]
    assert names(choose("auto", there=list(PROVIDERS), root=tmp_path / "without-devices")) == ["cpu"]


def test_the_fastest_that_was_measured_here_counts(root):
    def chosen(*timings, batch=1, hardware=HERE):
        there = [provider("cuda"), provider("openvino"), provider("cpu")]
        return names(choose("auto", timings, batch=batch, hardware=hardware, there=there, root=root))[0]

    assert chosen(timing("openvino", 1.0), timing("cpu", 2.0)) == "openvino"
    assert chosen(timing("openvino", 1.0), timing("cpu", 2.0), batch=64) == "cuda"
    assert chosen(timing("openvino", 1.0)) == "cuda"
    elsewhere = Hardware(cpu_model="CPU Z", microarchitecture="zen5", cores=2)
    assert chosen(timing("openvino", 1.0, hardware=elsewhere), timing("cpu", 2.0, hardware=elsewhere)) == "cuda"
    both = [timing("cuda", 3.0, hardware=WITH_GPU), timing("cpu", 2.0)]
    assert chosen(*both, hardware=HERE) == "cuda"
    assert chosen(*both, hardware=WITH_GPU) == "cpu"
    assert chosen(timing("cuda", 3.0, hardware=WITH_GPU), timing("cpu", 2.0, hardware=HERE), hardware=HERE) == "cuda"


def test_the_closest_batch_decides(root):
    timings = [timing("openvino", 1.0), timing("cpu", 2.0), timing("openvino", 9.0, 16), timing("cpu", 8.0, 16)]
    there = [provider("openvino"), provider("cpu")]
    assert names(choose("auto", timings, batch=2, hardware=HERE, there=there))[0] == "openvino"
    assert names(choose("auto", timings, batch=32, hardware=HERE, there=there))[0] == "cpu"


def test_tensorrt_hands_over_to_cuda_and_that_to_the_processor(root):
    there = [provider("tensorrt"), provider("cuda"), provider("cpu")]
    assert names(choose("tensorrt", there=there, root=root)) == ["tensorrt", "cuda", "cpu"]
    assert choose("TensorrtExecutionProvider", there=there, root=root).required


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "cuda",
            "CUDAExecutionProvider is not in the installed onnxruntime .*it has: cpu.*pip install onnxruntime-gpu",
        ),
        ("openvino", "pip install onnxruntime-openvino"),
        ("migraphx", "pip install onnxruntime-migraphx"),
        ("cudda", "not supported; use .*did you mean 'cuda'"),
    ],
)
def test_a_missing_provider_is_named_with_what_installs_it(name, problem):
    with pytest.raises(InputError, match=problem):
        choose(name, there=[provider("cpu")])


def test_a_missing_device_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no device for it .*/dev/nvidiactl"):
        choose("cuda", there=[provider("cuda"), provider("cpu")], root=tmp_path)


def test_this_onnxruntime_has_the_processor():
    assert available()[-1].name == "cpu"
