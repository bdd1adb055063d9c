"""Of runs that take no longer than looking at them does, few are looked at, and all are counted."""

import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
numpy = pytest.importorskip("numpy")

from modak_deploy.launch.frameworks import onnxruntime as adapter  # noqa: E402
from modak_deploy.launch.frameworks.counting import MOST  # noqa: E402

ONE_THREAD = {"candidates": ["onnxruntime-one-thread"]}
DATA = numpy.ones((2, 8), dtype=numpy.float32)


@pytest.fixture
def program(session_of, monkeypatch):
    """Return the function that makes a session whose runs take what is said by a clock of the test's."""

    def make(own, other, **options):
        owner, followed = onnxruntime.InferenceSession, session_of(**options)
        plain = owner.run

        def timed(self, *arguments):
            threads = self.get_session_options().intra_op_num_threads
            followed.clock += other if threads == 1 else own
            followed.runs.append(threads)
            return plain(self, *arguments)

        def looked(*arguments):
            followed.looked += 1
            return count(*arguments)

        count = adapter.Runs._count
        followed.clock, followed.looked, followed.runs = 0.0, 0, []
        monkeypatch.setattr(owner, "run", timed)
        monkeypatch.setattr(owner, "__init__", owner.__init__)
        monkeypatch.setattr(adapter.Runs, "now", lambda self, search: followed.clock)
        monkeypatch.setattr(adapter.Runs, "_count", looked)
        monkeypatch.setattr(adapter.clock, "now", lambda: followed.clock)
        adapter.install(followed, onnxruntime, onnxruntime.__version__)
        helper, types = onnx.helper, onnx.TensorProto
        weights = onnx.numpy_helper.from_array(numpy.arange(32, dtype=numpy.float32).reshape(8, 4), "w")
        values = [helper.make_tensor_value_info(name, types.FLOAT, [None, size]) for name, size in (("x", 8), ("y", 4))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        graph = helper.make_graph(nodes, "product", values[:1], values[1:], [weights])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return followed, onnxruntime.InferenceSession(made.SerializeToString())

    return make


def units(followed):
    followed.counters.write()
    return followed.record.states["inference: onnxruntime"]


@pytest.mark.parametrize("options", [{"mode": "none"}, {"share": 1e-9, **ONE_THREAD}])
def test_short_runs_are_all_counted_and_few_are_looked_at(program, options):
    followed, session = program(4e-5, 4e-5, **options)
    for number in range(1, 2001):
        assert numpy.array_equal(session.run(None, {"x": DATA})[0], DATA @ numpy.arange(32).reshape(8, 4))
        assert number % 97 or units(followed)["units"] == number
    state = units(followed)
    assert state["units"] == 2000 <= len(followed.runs) and followed.looked < 60 + 2000 / MOST
    assert state["steady"] == pytest.approx(4e-5) and state["seconds"] == pytest.approx(0.08, rel=0.05)


def test_long_runs_are_all_looked_at(program):
    followed, session = program(0.01, 0.01, mode="none")
    for _ in range(50):
        session.run(None, {"x": DATA})
    assert followed.looked == units(followed)["units"] == 50


def test_what_is_in_use_does_the_short_runs_that_are_not_looked_at(program):
    followed, session = program(4e-5, 1e-5, **ONE_THREAD)
    for _ in range(3000):
        session.run(None, {"x": DATA})
    (search,) = followed.searches
    assert search.best.name == "onnxruntime-one-thread"
    assert followed.runs[-2000:].count(1) > 1990, "the others are comparisons"
    assert followed.looked < 1000 and units(followed)["units"] == 3000
    # Each comparison does a run twice, and whatever is not looked at is booked as well.
    assert search.ledger.done == pytest.approx(3000, abs=MOST + 1)
    session.run(None, {"x": DATA[:, :]}, onnxruntime.RunOptions())
    assert followed.runs[-1] == 0, "a run with options is the program's own"


def test_a_run_that_is_not_looked_at_and_fails_is_done_by_the_programs_session(program):
    followed, session = program(4e-5, 1e-5, **ONE_THREAD)
    for _ in range(3000):
        session.run(None, {"x": DATA})
    runs = adapter_runs(session)

    def fails(*call):
        raise RuntimeError("out of order")

    runs._ways = dict.fromkeys(runs._ways, fails)
    results = [session.run(None, {"x": DATA})[0] for _ in range(100)]
    assert all(numpy.array_equal(result, results[0]) for result in results)
    assert set(followed.runs[-100:]) == {0} and "out of order" in followed.record.of("fallback")[0]["reason"]
    for _ in range(10):
        with pytest.raises(ValueError, match="missing"):
            session.run(None, {"z": DATA})
    assert units(followed)["units"] == 3100


def adapter_runs(session):
    """Return what counts a session's runs."""
    followed = type(session).run.__closure__
    (owner,) = (cell.cell_contents for cell in followed if isinstance(cell.cell_contents, adapter._Followed))
    return owner.runs(session)


def test_what_cannot_be_counted_is_run_all_the_same(program, monkeypatch):
    followed, session = program(4e-5, 4e-5, mode="none")

    def fails(*values):
        raise OSError("no room")

    monkeypatch.setattr(followed.counters, "tick", fails)
    results = [session.run(None, {"x": DATA})[0] for _ in range(20)]
    assert len(results) == len(followed.runs) == 20
    assert followed.record.of("fallback") == [
        {"event": "fallback", "what": "the counting of onnxruntime", "reason": "no room"}
    ]
