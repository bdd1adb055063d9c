"""Live trials on sessions of the real ONNX Runtime; the time of a run is what the test says."""

import os
import subprocess
import sys

import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
numpy = pytest.importorskip("numpy")

from modak_deploy.launch import hardware  # noqa: E402
from modak_deploy.launch.frameworks import onnxruntime as adapter  # noqa: E402
from modak_deploy.launch.frameworks import openvino_cpu  # noqa: E402
from modak_deploy.launch.lever import levers  # noqa: E402


@pytest.fixture
def model():
    """Return a matrix product as an ONNX model."""
    helper, types = onnx.helper, onnx.TensorProto
    weights = onnx.numpy_helper.from_array(numpy.random.default_rng(0).random((8, 4), dtype=numpy.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", types.FLOAT, [None, 8])],
        [helper.make_tensor_value_info("y", types.FLOAT, [None, 4])],
        [weights],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


@pytest.fixture
def follow(session_of, monkeypatch):
    """Put the adapter into ONNX Runtime for one test."""
    clock = {"now": 0.0}

    def make(cost, openvino=0.4, loading=0.0, **options):
        owner = onnxruntime.InferenceSession
        own_described = adapter.described

        def described(*arguments):
            source = own_described(*arguments)
            return source and source._replace(seconds=loading)

        monkeypatch.setattr(adapter, "described", described)
        session = session_of(**options)
        own_run = owner.run

        def timed(self, *arguments):
            given = self.get_session_options()
            clock["now"] += cost(given)
            return own_run(self, *arguments)

        monkeypatch.setattr(owner, "run", timed)
        monkeypatch.setattr(owner, "__init__", owner.__init__)
        monkeypatch.setattr(adapter.Runs, "now", lambda self, search: clock["now"])
        own_compiled = openvino_cpu.compiled

        def compiled(*arguments):
            request = own_compiled(*arguments)

            class Timed:
                def infer(self, feed):
                    clock["now"] += openvino
                    return request.infer(feed)

            return Timed()

        monkeypatch.setattr(openvino_cpu, "compiled", compiled)
        adapter.install(session, onnxruntime, onnxruntime.__version__)
        return session, clock

    return make


def run(session, times, names=None):
    data = numpy.ones((2, 8), dtype=numpy.float32)
    return [session.run(names, {"x": data})[0] for _ in range(times)]


def test_a_run_is_described_for_all_outputs_and_its_memory_is_not_the_programs(follow, model, monkeypatch):
    peaks = iter([100, 900])
    monkeypatch.setattr(adapter, "LOOK", 0)
    monkeypatch.setattr(hardware, "peak_memory", lambda: next(peaks, 900))
    session, _ = follow(lambda given: 1.0, mode="none")
    run(onnxruntime.InferenceSession(model), 2)
    (counter,) = session.counters._counters
    assert counter.features["flops"] == 2 * 2 * 8 * 4
    assert session.counters.peak_memory() == 100


def test_weights_in_another_file_count_among_what_a_second_session_takes(follow, model, monkeypatch, tmp_path):
    large = onnx.load_from_string(model)
    weights = numpy.ones((8, 4 << 20), dtype=numpy.float32)
    large.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    large.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4 << 20
    path = str(tmp_path / "large.onnx")
    onnx.save_model(large, path, save_as_external_data=True, size_threshold=0)
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-one-thread"])
    made = onnxruntime.InferenceSession(path)
    monkeypatch.setattr(hardware, "free_memory", lambda: 100 << 20)
    run(made, 10)
    assert "a second session takes about" in session.record.of("fallback")[0]["reason"]


def test_nothing_is_described_without_memory_for_a_second_session(follow, model, monkeypatch):
    monkeypatch.setattr(adapter, "LOOK", 0)
    monkeypatch.setattr(hardware, "free_memory", lambda: 10 << 20)  # enough for the file, not for what it computes
    session, _ = follow(lambda given: 1.0, mode="none")
    run(onnxruntime.InferenceSession(model), 2)
    (counter,) = session.counters._counters
    assert not counter.features


def test_session_options_are_tried_on_a_second_session(follow, model):
    session, clock = follow(
        lambda given: 0.5 if given.intra_op_num_threads == 1 else 1.0, candidates=["onnxruntime-one-thread"]
    )
    results = run(onnxruntime.InferenceSession(model), 40)
    assert session.record.of("settled")[-1]["variant"] == "onnxruntime-one-thread"
    assert clock["now"] < 35
    assert all(numpy.allclose(results[0], result) for result in results)
    session.counters.write()
    assert session.record.states["inference: onnxruntime"]["units"] == 40


@pytest.mark.parametrize(("loading", "tried"), [(1.0, True), (50.0, False)])
def test_what_loading_another_session_takes_must_be_affordable(follow, model, loading, tried):
    session, _ = follow(lambda given: 1.0, loading=loading, candidates=["onnxruntime-one-thread"], units=100, share=0.1)
    run(onnxruntime.InferenceSession(model), 100)
    assert bool(session.record.of("trying")) is tried
    reasons = [entry["reason"] for entry in session.record.of("not_tried")]
    assert reasons == ([] if tried else ["a first unit with it may lose 54 s, and trials may lose 10 s in this job"])


def test_all_levers_make_a_session_or_fall_back(follow, model):
    names = [one.name for one in levers("onnxruntime")]
    session, _ = follow(lambda given: 1.0, candidates=names, numerics="relaxed")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    run(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]), 150)
    tried = {entry["lever"] for entry in session.record.of("trying")}
    assert {"onnxruntime-graph-all", "onnxruntime-no-spinning", "onnxruntime-parallel"} <= tried
    assert "onnxruntime-openvino" not in tried
    trials = [entry for entry in session.record.of("trial") if entry["variant"] == "onnxruntime-graph-all"]
    assert trials and trials[0]["difference"] < 1e-6


def test_a_session_that_cannot_be_repeated_is_only_counted(follow, model):
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-one-thread"])
    made = onnxruntime.InferenceSession(model, providers=[("CPUExecutionProvider", {})])
    run(made, 10)
    assert session.record.of("no_trials")[0]["reason"] == "the session's options cannot be repeated"


def test_a_second_session_on_a_device_is_for_chosen_levers_alone(follow, model, monkeypatch):
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda self: providers)
    names = ["onnxruntime-one-thread", "onnxruntime-parallel"]
    session, _ = follow(lambda given: 1.0, levers=names[:1], candidates=names)
    run(onnxruntime.InferenceSession(model), 10)
    assert session.record.of("chosen") and not session.record.of("trying")
    (refused,) = [entry for entry in session.record.of("not_offered") if entry["lever"] == names[1]]
    assert refused["reason"] == "a second session would take the memory of its device"


def test_the_programs_own_error_reaches_the_program(follow, model):
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-one-thread"])
    made = onnxruntime.InferenceSession(model)
    run(made, 3)
    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing"):
        made.run(None, {"z": numpy.ones((2, 8), dtype=numpy.float32)})
    assert not session.record.of("fallback")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ([float("nan"), 1.0], "not finite"),
        ([1.0, 3.0], "the result differs by"),
        ([1.0, 2.0, 3.0], "another shape"),
        (None, "a value is of the type builtins.object"),
    ],
)
def test_results_are_compared(other, reason):
    default = [numpy.array([1.0, 2.0], dtype=numpy.float32)]
    result = [numpy.array(other, dtype=numpy.float32)] if other else [object()]
    _, problem = adapter._difference(numpy, default, result, 1e-4)
    assert reason in problem
    assert adapter._difference(numpy, default, default, 1e-4) == (0.0, None)


def test_options_of_a_lever_hold_for_the_session_that_runs(follow, model):
    seen = []
    options = {"intra_op_num_threads": 1, "execution_mode": "ORT_PARALLEL", "enable_mem_pattern": False}
    session, _ = follow(
        lambda given: seen.append(given) or 1.0,
        levers=["onnxruntime-options"],
        settings={"onnxruntime-options": options},
        mode="none",
    )
    session.start_levers("onnxruntime", onnxruntime.__version__, onnxruntime)
    run(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]), 3)
    used = seen[-1]
    assert (used.intra_op_num_threads, used.enable_mem_pattern) == (1, False)
    assert used.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"intra_op_threads": 1}, "have no option 'intra_op_threads'"),
        ({"add_session_config_entry": 1}, "have no option 'add_session_config_entry'"),
        ({"execution_mode": "PARALLEL"}, "AttributeError"),
        ({"intra_op_num_threads": "ORT_PARALLEL"}, "AttributeError"),
        ({"graph_optimization_level": 3}, "TypeError"),
    ],
)
def test_options_that_a_release_has_not_are_reported_and_none_is_set(follow, model, options, reason):
    seen = []
    session, _ = follow(
        lambda given: seen.append(given) or 1.0,
        levers=["onnxruntime-options"],
        settings={"onnxruntime-options": {"enable_mem_reuse": False, **options}},
        mode="none",
    )
    session.start_levers("onnxruntime", onnxruntime.__version__, onnxruntime)
    (fallback,) = [entry for entry in session.record.entries if "onnxruntime-options" in entry.values()]
    assert reason in fallback["reason"]
    run(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]), 2)
    assert all(given.enable_mem_reuse for given in seen)


def test_threads_for_half_of_the_cores_are_tried_where_that_is_more_than_one(follow, model, monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: 4)
    session, _ = follow(
        lambda given: 0.6 if given.intra_op_num_threads == 2 else 1.0, candidates=["onnxruntime-threads-half"]
    )
    run(onnxruntime.InferenceSession(model), 60)
    assert session.record.of("settled")[-1]["variant"] == "onnxruntime-threads-half"


def test_half_of_two_cores_is_not_offered(follow, model, monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-threads-half"])
    run(onnxruntime.InferenceSession(model), 5)
    assert session.record.of("not_offered")[0]["reason"] == "half of the cores is one thread"


def batched(session, times, rows=16, width=8):
    data = numpy.random.default_rng(1).random((rows, width), dtype=numpy.float32)
    return [session.run(None, {"x": data})[0] for _ in range(times)]


def test_a_part_of_the_batch_is_tried_first_where_the_model_permits_it(follow, model):
    options = {"candidates": ["onnxruntime-one-thread"], "units": 23, "share": 0.03}
    session, clock = follow(lambda given: 0.1 if given.intra_op_num_threads == 1 else 1.0, **options)
    results = batched(onnxruntime.InferenceSession(model), 23)
    (probe,) = session.record.of("probe")
    assert (probe["rows"], probe["batch"], probe["problem"]) == (2, 16, None)
    assert probe["difference"] < 1e-6
    assert not session.record.of("fallback")
    assert session.record.of("trial") or session.record.of("not_tried")
    assert clock["now"] < 23
    assert all(result.shape == (16, 4) and numpy.allclose(result, results[0]) for result in results)


def test_a_model_for_one_size_of_batch_has_no_part(follow, model):
    fixed = onnx.load_from_string(model)
    for value in (*fixed.graph.input, *fixed.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 16
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-one-thread"], units=40)
    batched(onnxruntime.InferenceSession(fixed.SerializeToString()), 40)
    assert session.record.of("trial") and not session.record.of("probe")


def test_a_result_over_the_whole_batch_is_compared_on_the_whole(follow, model):
    whole = onnx.load_from_string(model)
    whole.graph.node.append(onnx.helper.make_node("ReduceMean", ["y"], ["z"], axes=[0], keepdims=0))
    whole.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [4]))
    session, _ = follow(lambda given: 0.5 if given.intra_op_num_threads == 1 else 1.0,
                        candidates=["onnxruntime-one-thread"], units=60)  # fmt: skip
    batched(onnxruntime.InferenceSession(whole.SerializeToString()), 60)
    assert "no row for each row" in session.record.of("probe")[0]["problem"]
    assert session.record.of("settled")[-1]["variant"] == "onnxruntime-one-thread"


@pytest.fixture
def two_outputs():
    """Return a model whose outputs are a product and whole numbers."""
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
    ]
    outputs = [
        helper.make_tensor_value_info("positive", types.FLOAT, [None, 8]),
        helper.make_tensor_value_info("place", types.INT64, [None]),
    ]
    inputs = [helper.make_tensor_value_info("x", types.FLOAT, [None, 8])]
    graph = helper.make_graph(nodes, "two", inputs, outputs)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


@pytest.mark.parametrize("as_path", [True, False])
@pytest.mark.parametrize("names", [None, ["place"], ["place", "positive"]])
def test_openvino_runs_the_model_of_a_session(follow, two_outputs, tmp_path, names, as_path):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    session, clock = follow(lambda given: 1.0, candidates=["onnxruntime-by-openvino"], units=60)
    (tmp_path / "model.onnx").write_bytes(two_outputs)
    made = onnxruntime.InferenceSession(tmp_path / "model.onnx" if as_path else two_outputs)
    generator = numpy.random.default_rng(0)
    kept = []
    for _ in range(60):
        data = generator.standard_normal((4, 8), dtype=numpy.float32).copy(order="F")
        given = {"positive": numpy.maximum(data, 0), "place": data.argmax(axis=1)}
        kept.append(([given[name] for name in names or ("positive", "place")], made.run(names, {"x": data})))
    assert session.record.of("settled")[-1]["variant"] == "onnxruntime-by-openvino"
    assert clock["now"] < 45
    for wanted, found in kept:
        assert [value.dtype for value in found] == [value.dtype for value in wanted]
        assert all(numpy.array_equal(left, right) for left, right in zip(found, wanted, strict=True))


def test_openvino_is_not_offered_for_another_provider():
    (lever,) = [lever for lever in levers("onnxruntime") if lever.name == "onnxruntime-by-openvino"]
    assert "not run on the processor" in lever.applies(onnxruntime, None, ["CUDAExecutionProvider"])


def test_a_model_that_openvino_cannot_read_stays_with_onnxruntime(follow):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("CDist", ["x", "b"], ["z"], domain="com.microsoft", metric="euclidean")]
    others = onnx.numpy_helper.from_array(numpy.ones((5, 8), dtype=numpy.float32), "b")
    inputs = [helper.make_tensor_value_info("x", types.FLOAT, [2, 8])]
    graph = helper.make_graph(nodes, "own", inputs, [helper.make_tensor_value_info("z", types.FLOAT, [2, 5])], [others])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-by-openvino"], units=60)
    results = run(onnxruntime.InferenceSession(made), 60)
    assert all(numpy.array_equal(results[0], result) for result in results)
    assert session.record.of("fallback")[0]["what"] == "onnxruntime-by-openvino"


IMPORT = """
import sys, threading
from modak_deploy.launch.frameworks import openvino_cpu
openvino_cpu.module().Core()
openvino_cpu.module("openvino.frontend.pytorch.fx_decoder")
assert "openvino_telemetry" not in sys.modules, "telemetry"
assert threading.active_count() == 1, threading.enumerate()
"""


def test_openvino_reports_nothing(tmp_path):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", IMPORT], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "reason"), [("DOUBLE", "double precision"), ("INT64", "beyond 24 bits"), ("FLOAT", None)]
)
def test_what_openvino_would_compute_in_fewer_bits_stays(follow, kind, reason):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    helper, types = onnx.helper, onnx.TensorProto
    values = [helper.make_tensor_value_info(name, getattr(types, kind), [None]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negative", values[:1], values[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-by-openvino"], units=80)
    program = onnxruntime.InferenceSession(made)
    for unit in range(80):
        value = 2**40 + 1 if unit > 60 and kind != "FLOAT" else 3
        data = numpy.array([value], dtype={"DOUBLE": "float64", "INT64": "int64", "FLOAT": "float32"}[kind])
        assert program.run(None, {"x": data})[0][0] == -value
    given = [entry["reason"] for entry in session.record.of("fallback")]
    assert (given == []) if reason is None else (len(given) == 1 and reason in given[0])


def test_a_model_whose_file_is_gone_goes_on(follow, model, tmp_path):
    (tmp_path / "model.onnx").write_bytes(model)
    session, _ = follow(lambda given: 1.0, candidates=["onnxruntime-by-openvino", "onnxruntime-one-thread"], units=60)
    made = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (tmp_path / "model.onnx").unlink()
    assert len(run(made, 60)) == 60
    assert session.record.of("fallback")
