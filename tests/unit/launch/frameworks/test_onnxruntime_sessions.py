"""Sessions of ONNX Runtime that are followed are the program's own, in all that a program may do with them."""

import gc
import shutil
import tempfile
import threading
import time
import weakref

import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
numpy = pytest.importorskip("numpy")

from modak_deploy.launch.frameworks import onnxruntime as adapter  # noqa: E402
from modak_deploy.launch.frameworks.onnxruntime import nodes, sessions  # noqa: E402

ONE_THREAD = {"candidates": ["onnxruntime-one-thread"]}
FAST = {"levers": ["onnxruntime-one-thread"], "mode": "none"}
"""A lever that is on from the start: all runs but the first are done by a second session."""
DATA = numpy.ones((2, 8), dtype=numpy.float32)


def made_of(*operations, factor=1.0, inputs=(("x", "FLOAT", [None, 8]),), output="FLOAT", **constants):
    """Return a model of operations, after a product with a matrix ``w`` where one asks for it."""
    helper, types = onnx.helper, onnx.TensorProto
    weights = numpy.random.default_rng(0).random((8, 4), dtype=numpy.float32) * numpy.float32(factor)
    given = {"w": weights, **constants}
    used = {name for one in operations for name in one.input}
    graph = helper.make_graph(
        list(operations),
        "test",
        [helper.make_tensor_value_info(name, getattr(types, kind), shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info("y", getattr(types, output), None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in given.items() if name in used],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def node(kind, given, result="y", **attributes):
    return onnx.helper.make_node(kind, given.split(), result.split(), **attributes)


@pytest.fixture
def model():
    return made_of(node("MatMul", "x w"))


@pytest.fixture
def follow(session_of, monkeypatch):
    """Put the adapter into ONNX Runtime for one test."""

    def make(**options):
        owner = onnxruntime.InferenceSession
        monkeypatch.setattr(owner, "run", owner.run)
        monkeypatch.setattr(owner, "__init__", owner.__init__)
        session = session_of(**options)
        adapter.install(session, onnxruntime, onnxruntime.__version__)
        return session

    return make


def test_classes_that_limit_look_up_or_copy_their_attributes(follow, model):
    session = follow(**FAST)

    class Closed(onnxruntime.InferenceSession):
        def __init__(self, content):
            super().__init__(content)
            self.closed = True

        def __setattr__(self, name, value):
            if "closed" in vars(self):
                raise TypeError("it is closed")
            super().__setattr__(name, value)

        def __getattr__(self, name):
            return self.get_modelmeta().custom_metadata_map[name]  # KeyError for what is not there

        def __eq__(self, other):
            return self is other

    made = Closed(model)
    before = set(vars(made))
    for _ in range(40):
        made.run(None, {"x": DATA})
    assert session.record.of("chosen")
    assert set(vars(made)) == before


def test_what_the_program_puts_in_place_of_classes_and_methods_is_called_for_its_own_alone(follow, model, monkeypatch):
    monkeypatch.setattr(adapter, "LOOK", 0)
    session = follow(**FAST)
    owner, called = onnxruntime.InferenceSession, []
    own_init, own_run = owner.__init__, owner.run

    def init(self, *args, **kwargs):
        called.append("init")
        own_init(self, *args, **kwargs)

    def run(self, *args):
        called.append("run")
        return own_run(self, *args)

    class Logged(owner):
        def __init__(self, content):
            called.append("class")
            super().__init__(content)

    monkeypatch.setattr(owner, "__init__", init)
    monkeypatch.setattr(owner, "run", run)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Logged)
    monkeypatch.setattr(onnxruntime, "SessionOptions", lambda: called.append("options"))
    made = onnxruntime.InferenceSession(model)
    for _ in range(40):
        made.run(None, {"x": DATA})
    assert session.record.of("chosen")
    assert session.counters._counters[0].features
    assert called == ["class", "init"] + 40 * ["run"]


def test_a_session_that_is_made_anew_runs_its_new_model(follow, model):
    follow(**FAST)
    made = onnxruntime.InferenceSession(model)
    before = [made.run(None, {"x": DATA})[0] for _ in range(5)][-1]
    made.__init__(made_of(node("MatMul", "x w"), factor=3.0))
    for _ in range(5):
        assert numpy.allclose(made.run(None, {"x": DATA})[0], 3 * before)


def test_a_session_with_other_providers_is_left_alone(follow, model):
    session = follow(**FAST)
    made = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    made.run(None, {"x": DATA})
    made.set_providers(["CPUExecutionProvider"], [{}])
    made.run(None, {"x": DATA})
    assert session.record.of("no_trials")[0]["reason"] == "the session's providers have changed"


def test_a_model_whose_file_is_another_by_now_is_not_loaded_again(follow, model, tmp_path, monkeypatch):
    session = follow(**FAST)
    monkeypatch.chdir(tmp_path)
    for name, factor in (("model.onnx", 1.0), ("new.onnx", 1.00001)):
        (tmp_path / name).write_bytes(made_of(node("MatMul", "x w"), factor=factor))
    made = onnxruntime.InferenceSession("model.onnx")
    (tmp_path / "new.onnx").replace("model.onnx")
    for _ in range(40):
        made.run(None, {"x": DATA})
    assert {entry["reason"] for entry in session.record.of("fallback") + session.record.of("no_trials")} == {
        "ValueError: the model's file has changed since the session was made"
    }


def test_a_relative_path_holds_where_the_program_goes_to_another_folder(follow, model, tmp_path, monkeypatch):
    session = follow(**FAST)
    (tmp_path / "model.onnx").write_bytes(model)
    monkeypatch.chdir(tmp_path)
    made = onnxruntime.InferenceSession("model.onnx")
    monkeypatch.chdir("/")
    for _ in range(40):
        made.run(None, {"x": DATA})
    assert session.record.of("chosen") and not session.record.of("fallback")


def test_options_are_those_of_the_time_when_the_session_was_made(follow, model):
    session = follow(**FAST)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    made = onnxruntime.InferenceSession(model, options)
    options.intra_op_num_threads = 2
    for _ in range(5):
        made.run(None, {"x": DATA})
    assert session.record.of("not_offered")[0]["reason"] == "it is so already"


def test_a_profile_has_all_runs(follow, model, tmp_path, monkeypatch):
    session = follow(**FAST)
    monkeypatch.chdir(tmp_path)
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    made = onnxruntime.InferenceSession(model, options)
    for _ in range(20):
        made.run(None, {"x": DATA})
    assert (tmp_path / made.end_profiling()).read_text().count('"model_run"') == 20
    assert session.record.of("no_trials")[0]["reason"] == "the session's options cannot be repeated"


def test_a_second_session_says_nothing(follow, capfd):
    session = follow(**FAST)
    made = onnxruntime.InferenceSession(
        made_of(node("MatMul", "x w"), node("Identity", "w", "unused")), providers=["CPUExecutionProvider"]
    )
    capfd.readouterr()
    for _ in range(40):
        made.run(None, {"x": DATA})
    assert session.record.of("chosen")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["RandomNormalLike", "Bernoulli", "Multinomial", "Dropout", "in If"])
def test_a_model_that_draws_random_numbers_draws_what_it_would_alone(follow, kind, tmp_path):
    session = follow(**FAST)
    content = _drawing(kind)
    (tmp_path / "model.onnx").write_bytes(content)
    for given in (content, tmp_path / "model.onnx"):
        made = onnxruntime.InferenceSession(given)
        for _ in range(5):
            made.run(None, {"x": DATA})
    assert [entry["reason"] for entry in session.record.of("no_trials")] == 2 * ["the model draws random numbers"]


def _drawing(kind):
    if kind == "in If":
        inner = onnx.helper.make_graph(
            [node("RandomNormalLike", "x", "r")],
            "branch",
            [],
            [onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)],
        )
        return made_of(node("If", "yes", then_branch=inner, else_branch=inner), yes=numpy.array(True))
    if kind == "Dropout":
        constants = {"half": numpy.array(0.5, numpy.float32), "yes": numpy.array(True)}
        return made_of(node("MatMul", "x w", "h"), node(kind, "h half yes"), **constants)
    return made_of(node(kind, "x"), output="INT32" if kind == "Multinomial" else "FLOAT")


def test_dropout_in_inference_and_weights_that_look_like_names_draw_nothing():
    weights = numpy.frombuffer(2 * b'"\x0cRandomNormal\x00\x00', numpy.float32)
    assert not nodes.draws(made_of(node("Dropout", "x", "h"), node("Add", "h v"), v=weights))
    assert nodes.draws(b"\x18\0\0\0ORTM\0\0\0\0\x0c\0\0\0RandomNormal\0")
    with pytest.raises(ValueError, match="cut off"):
        nodes.draws(made_of(node("Relu", "x"))[:-3])


def test_names_that_can_be_read_once_only(follow, model):
    session = follow(**FAST)
    made = onnxruntime.InferenceSession(model)
    seen = []

    def names():
        seen.append(1)
        yield "y"

    for _ in range(3):
        try:
            made.run(names(), {"x": DATA})
        except TypeError:  # of releases that take lists only
            assert not seen
    for wrong in ([DATA], None, {"x": DATA}.items()):
        with pytest.raises(AttributeError):
            made.run(None, wrong)
    assert not session.record.of("fallback")


def test_sessions_that_the_program_is_done_with_are_gone(follow, model, monkeypatch):
    monkeypatch.setattr(adapter, "SESSIONS", 4)
    session = follow(**FAST)
    seconds, own = [], sessions.Sessions.second

    def second(self, *args):
        result = own(self, *args)
        seconds.append(weakref.ref(result))
        return result

    monkeypatch.setattr(sessions.Sessions, "second", second)
    kept = []
    for _ in range(8):
        made = onnxruntime.InferenceSession(bytes(bytearray(model)))
        for _ in range(3):
            made.run(None, {"x": DATA})
        kept.append(weakref.ref(made))
        del made
    gc.collect()
    assert len(seconds) == 4
    assert [reference() for reference in kept + seconds] == 12 * [None]
    assert [counter.state()["units"] for counter in session.counters._counters] == [3, 3, 3, 3, 12]


def test_trials_that_another_thread_stops_leave_the_run_alone(follow, model):
    session = follow(**FAST)
    made = onnxruntime.InferenceSession(model)
    wanted = made.run(None, {"x": DATA})[0]
    wrong = []

    def work():
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            wrong.extend([1] * (not numpy.allclose(made.run(None, {"x": DATA})[0], wanted)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not session.record.of("fallback")


def test_where_temporary_files_lie_is_for_the_program_to_say(follow, model, monkeypatch, tmp_path):
    monkeypatch.setattr(adapter, "LOOK", 0)
    monkeypatch.setattr(tempfile, "tempdir", None)
    session = follow(mode="none")
    made = onnxruntime.InferenceSession(model)
    made.run(None, {"x": DATA})
    assert session.counters._counters[0].features
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert tempfile.gettempdir() == str(tmp_path)


def test_an_error_of_the_programs_has_no_other_before_it_and_costs_no_lever(follow):
    session = follow(**FAST)
    table = numpy.arange(10, dtype=numpy.float32).reshape(5, 2)
    made = onnxruntime.InferenceSession(made_of(node("Gather", "t x"), inputs=(("x", "INT64", [None]),), t=table))
    for number in (0, 1, 2, 7, 3):
        given = {"x": numpy.array([number], dtype=numpy.int64)}
        if number != 7:
            assert (made.run(None, given)[0] == table[[number]]).all()
            continue
        with pytest.raises(Exception, match="out of data bounds") as error:
            made.run(None, given)
        assert error.value.__context__ is None
    assert not session.record.of("fallback")


ROWS = {
    "by the input": ([node("Gather", "t x")], None),
    "in another form": ([node("Unsqueeze", "x one", "u"), node("Cast", "u", "i", to=6), node("Gather", "t i")], None),
    "of columns": ([node("Gather", "t x", axis=1)], None),
    "computed": ([node("Add", "x x", "i"), node("Gather", "t i")], "by numbers that are computed"),
    "several dimensions": ([node("Unsqueeze", "x one", "u"), node("GatherND", "t u")], "parts of tables"),
    "by a size": ([node("Shape", "x", "s"), node("Sub", "s s", "i"), node("Gather", "t i")], None),
}


@pytest.mark.parametrize("kind", ROWS)
def test_openvino_is_given_no_numbers_that_a_table_has_not(follow, kind):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    session = follow(levers=["onnxruntime-by-openvino"], mode="none")
    operations, refusal = ROWS[kind]
    table = numpy.arange(25, dtype=numpy.float32).reshape(5, 5)
    one = numpy.array([1], dtype=numpy.int64)
    made = onnxruntime.InferenceSession(made_of(*operations, inputs=(("x", "INT64", [None]),), t=table, one=one))
    plain = onnxruntime.InferenceSession(made_of(*operations, inputs=(("x", "INT64", [None]),), t=table, one=one))
    for number in (0, 1, 2, 5, -5, -6, 1):
        given = {"x": numpy.array([number], dtype=numpy.int64)}
        try:
            wanted = plain._sess.run(["y"], given, None)[0]
        except Exception as error:
            with pytest.raises(type(error), match=r"out of|invalid"):
                made.run(None, given)
        else:
            assert (made.run(None, given)[0] == wanted).all()
    reasons = [entry["reason"] for entry in session.record.of("fallback")]
    assert len(reasons) == (refusal is not None) and all(refusal in reason for reason in reasons)


@pytest.mark.parametrize(
    ("kind", "operation", "values", "refusal"),
    [
        ("UINT8", "Add", (250, 10), "whole numbers that may not fit their type"),
        ("INT64", "Mul", (2**20, 2**20), "whole numbers that may not fit their type"),
        ("INT32", "Div", (2**31 - 1, 7), "whole numbers that may not fit their type"),
        ("INT64", "Add", (20, 10), None),
        ("FLOAT", "Max", (float("nan"), 1), "values that are not finite"),
        ("FLOAT", "Max", (float("-inf"), 1), "values that are not finite"),
    ],
)
def test_what_openvino_computes_in_another_way_is_onnx_runtimes(follow, kind, operation, values, refusal):
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    session = follow(levers=["onnxruntime-by-openvino"], mode="none")
    inputs = tuple((name, kind, [None]) for name in ("x", "z"))
    made = onnxruntime.InferenceSession(made_of(node(operation, "x z"), inputs=inputs, output=kind))
    for given in [(3, 2)] * 3 + [values] * 2:
        dtype = "float32" if kind == "FLOAT" else kind.lower()
        feed = {"x": numpy.array(given[:1], dtype), "z": numpy.array(given[1:], dtype)}
        assert numpy.array_equal(made.run(None, feed)[0], made._sess.run(["y"], feed, None)[0], equal_nan=True)
    reasons = [entry["reason"] for entry in session.record.of("fallback")]
    assert len(reasons) == (refusal is not None) and all(refusal in reason for reason in reasons)


def test_a_copied_file_of_the_same_content_is_still_another(tmp_path, model):
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    source = sessions.described(path, {}, 0.0)
    assert source.model == str(path)
    shutil.copy(path, tmp_path / "other.onnx")
    (tmp_path / "other.onnx").replace(path)
    with pytest.raises(ValueError, match="has changed"):
        assert source.model
