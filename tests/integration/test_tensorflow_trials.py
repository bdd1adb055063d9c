"""Levers are tried on the program's own tf.functions: steps are done once, and results without effects are compared."""

import importlib.util
import json
from types import SimpleNamespace

import pytest

from launch_parts import launch

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
PROGRAM = """
import json
import numpy as np, tensorflow as tf
rng = np.random.default_rng(0)
data = tf.constant(rng.standard_normal((64, 32)).astype("float32"))
wanted = data[:, :4] * 0.5
weight = tf.Variable(rng.standard_normal((32, 4)).astype("float32") * 0.1)
count = tf.Variable(0)

@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    count.assign_add(1)
    return loss

@tf.function
def predict(x):
    return {"scores": tf.nn.softmax(x @ weight)}

@tf.function
def noisy(x):
    return x @ weight + tf.random.normal((64, 4))

losses = [float(train(data, wanted)) for step in range(300)]
sums = [float(tf.reduce_sum(predict(data)["scores"][:, 0])) for call in range(300)]
for call in range(6):
    noisy(data)
with tf.GradientTape() as tape:
    tape.watch(data)
    value = predict(data)["scores"][:, 0]
print(json.dumps({"count": int(count), "weight": float(tf.norm(weight)), "losses": losses[-3:], "sums": sums[-3:],
                  "gradient": float(tf.norm(tape.gradient(value, data)))}))
"""


@pytest.fixture
def run(tmp_path):
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")

    def program(text=PROGRAM, levers=(), **trials):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "program.py").write_text(text)
        config = {"levers": list(levers), "trials": {"mode": "live", "share": 1.0, **trials}}
        done = launch(folder / "program.py", folder, config, environment=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        return SimpleNamespace(value=json.loads(done.stdout.splitlines()[-1]), entries=done.entries, stderr=done.stderr)

    return program


def of(done, event):
    return [entry for entry in done.entries if entry["event"] == event]


def test_each_step_is_done_once_and_results_are_as_without_trials(run):
    alone = run(mode="none")
    expected = {"tensorflow-jit-compile": {"gain": 9, "seconds": 0.0}}
    exact = run(expected=expected, units=1000)
    assert {(entry["of"], entry["lever"]) for entry in of(exact, "trying")} == {
        (of, f"tensorflow-{lever}") for of in ("train", "predict") for lever in ("keep-memory", "jit-compile")
    }
    assert alone.value["count"] == exact.value["count"] == 300
    for key in ("weight", "losses", "sums", "gradient"):
        assert exact.value[key] == pytest.approx(alone.value[key], rel=1e-4), key
    left = {entry["of"]: entry["reason"] for entry in of(exact, "no_trials")}
    assert left["noisy"].startswith("it has effects that must not be repeated: Random")
    assert left["predict"] == "its calls are recorded for gradients"


def test_relaxed_trials_use_bf16_and_are_within_its_tolerance(run):
    alone = run(mode="none")
    relaxed = run(numerics="relaxed", candidates=["tensorflow-bf16"])
    if not of(relaxed, "trying"):
        reason = next(entry["reason"] for entry in relaxed.entries if entry.get("lever") == "tensorflow-bf16")
        assert "no bf16 arithmetic" in reason
        pytest.skip(reason)
    assert relaxed.value["count"] == 300
    assert relaxed.value["sums"] == pytest.approx(alone.value["sums"], rel=0.02)
    compared = [entry["difference"] for entry in of(relaxed, "trial") if entry["of"] == "predict"]
    assert compared and 1e-6 < compared[0] < 0.05, "the number format did change"


BROKEN = PROGRAM.replace("    return loss\n", "    tf.py_function(lambda: None, [], [])\n    return loss\n")


def test_what_xla_cannot_compile_is_not_offered(run):
    done = run(BROKEN, expected={"tensorflow-jit-compile": {"gain": 9, "seconds": 0.0}}, units=1000)
    reasons = [entry["reason"] for entry in of(done, "not_offered") if entry["lever"] == "tensorflow-jit-compile"]
    assert "XLA cannot compile EagerPyFunc" in reasons
    assert done.value["count"] == 300


DATA = PROGRAM[: PROGRAM.index("@tf.function")]
WILLING = {"expected": {"tensorflow-jit-compile": {"gain": 9, "seconds": 0.0}}, "units": 1000}
FLAG = (
    DATA
    + """
@tf.function
def step(x, y, learn):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    if learn:
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        count.assign_add(1)
    return loss
for number in range(200):
    step(data, wanted, False)
    step(data, wanted, True)
print(json.dumps({"count": int(count), "weight": float(tf.norm(weight))}))
"""
)


def test_a_flag_that_decides_whether_a_call_is_a_step_is_no_detail(run):
    alone, tried = run(FLAG, mode="none"), run(FLAG, **WILLING)
    assert of(tried, "trying"), "calls without effects were compared"
    assert tried.value["count"] == alone.value["count"] == 200
    assert tried.value["weight"] == pytest.approx(alone.value["weight"], rel=1e-4)


ONCE = {
    "an iterator": (
        """
batches = iter(tf.data.Dataset.from_tensors((data, wanted)).repeat())
@tf.function
def train(batches):
    x, y = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    return loss
for number in range(40):
    train(batches)
""",
        "it takes its input away, and a step cannot be done again: IteratorGetNext",
    ),
    "a variable that is only written to": (
        """
@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    count.assign_add(1, read_value=False)
    return loss
for number in range(40):
    train(data, wanted)
""",
        "it may change what cannot be set back",
    ),
}


@pytest.mark.parametrize("case", sorted(ONCE))
def test_steps_that_cannot_be_done_again_are_left_alone(run, case):
    text, reason = ONCE[case]
    done = run(DATA + text + "\nprint(json.dumps(float(tf.norm(weight))))", **WILLING)
    assert [entry["reason"] for entry in of(done, "no_trials")] == [reason]
    assert not of(done, "trying")


def test_functions_that_the_program_drops_are_not_kept(run):
    text = """
import gc, weakref
def make():
    function = tf.function(lambda x: x @ weight)
    for number in range(5):
        function(data)
    return weakref.ref(function)
gone = [make() for number in range(3)]
gc.collect()
print(json.dumps([one() is None for one in gone]))
"""
    assert run(DATA + text, **WILLING).value == [True] * 3


PYTHON = (
    DATA
    + """
rate, traced = 0.1, []
@tf.function
def train(x, y):
    traced.append(rate)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(rate * tape.gradient(loss, weight))
    return loss
for number in range(200):
    train(data, wanted)
    rate = 0.0  # without effect: the function was traced before
print(json.dumps({"traced": traced, "weight": float(tf.norm(weight))}))
"""
)


def test_what_the_program_changes_in_python_after_tracing_has_no_effect_with_a_lever_either(run):
    alone, tried = run(PYTHON, mode="none"), run(PYTHON, **WILLING)
    assert of(tried, "trying")
    assert tried.value["traced"] == alone.value["traced"] == [0.1]
    assert tried.value["weight"] == pytest.approx(alone.value["weight"], rel=1e-4)


LOGGED = """
import tensorflow as tf
@tf.function
def act(x):
    return tf.tanh(x) * 2.0
for number in range(30):
    act(tf.ones((8, 8)))
"""


def test_what_xla_logs_does_not_reach_the_programs_output(run, tmp_path):
    (tmp_path / "logged.py").write_text(LOGGED)
    config = {"levers": ["tensorflow-jit-compile"], "trials": {"mode": "none"}}
    done = launch(tmp_path / "logged.py", tmp_path, config, environment={"TF_CPP_MIN_LOG_LEVEL": "0"})
    assert of(done, "chosen") and not of(done, "fallback"), done.stderr
    assert "oneDNN" in done.stderr or "cpu_feature_guard" in done.stderr
    assert "XLA" not in done.stderr and "MLIR" not in done.stderr
    assert [entry["name"] for entry in of(done, "state")] == ["tensorflow: act", "process"]


REFUSED = {
    "rows of a table": """
table = tf.Variable(tf.ones((20, 8)))
@tf.function
def act(numbers):
    return tf.gather(table, numbers)
good, bad = tf.constant([0, 19]), tf.constant([0, 20])
""",
    "zero": """
@tf.function
def act(numbers):
    return 4 // numbers
good, bad = tf.constant([1, 2]), tf.constant([1, 0])
""",
    "a matrix without an inverse": """
@tf.function
def act(matrix):
    return tf.linalg.inv(matrix)
good, bad = tf.eye(3), tf.zeros((3, 3))
""",
}
ACT = """
for number in range(60):
    act(good)
try:
    print(json.dumps(str(act(bad).numpy())))
except tf.errors.InvalidArgumentError:
    print(json.dumps("refused"))
"""


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_tensorflow_refuses_is_refused_with_xla_as_well(run, case):
    text = DATA + REFUSED[case] + ACT
    alone, tried = run(text, mode="none"), run(text, mode="none", levers=["tensorflow-jit-compile"])
    assert bool(of(tried, "chosen")) == (case == "rows of a table")
    assert tried.value == alone.value == "refused"


EAGER = (
    DATA
    + """
calls = []
@tf.function
def act(x):
    calls.append(len(calls))
    return tf.nn.softmax(x @ weight)
for number in range(60):
    act(data)
tf.config.run_functions_eagerly(True)
for number in range(3):
    act(data)
print(json.dumps(calls))
"""
)


def test_functions_that_the_program_has_run_eagerly_later_are_its_own(run):
    alone, tried = run(EAGER, mode="none"), run(EAGER, **WILLING)
    assert of(tried, "trying")
    assert tried.value == alone.value


ELSEWHERE = """
import json, tensorflow as tf
from modak_launch.frameworks.tensorflow import kinds, xla
table = tf.Variable(tf.eye(4))
def trained(numbers):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, tf.where(numbers < 0, numbers + 4, numbers)) ** 2)
    table.assign_sub(tf.convert_to_tensor(tape.gradient(loss, table)))
    return loss
def counted(x):
    table.assign_add(x)
    return tf.reduce_mean(tf.cast(tf.argmax(table) == tf.argmax(x), tf.float32))
whole, real, square = tf.TensorSpec((2,), tf.int32), tf.TensorSpec((2,)), tf.TensorSpec((4, 4))
cases = {
    "item": (lambda i: table[i[0]], whole), "slice": (lambda i: tf.slice(table, i, [1, 4]), whole),
    "scatter": (lambda i: tf.scatter_nd(i[:, None], tf.ones((2,)), [4]), whole),
    "segment": (lambda i: tf.math.unsorted_segment_sum(tf.ones((2,)), i, 4), whole),
    "list": (lambda i: tf.TensorArray(tf.float32, 4).unstack(table).read(i[0]), whole),
    "power": (lambda i: tf.constant([2, 3]) ** i, whole), "shift": (lambda i: tf.bitwise.left_shift(1, i), whole),
    "whole": (lambda x: tf.cast(x * 2.0, tf.uint8), real), "whole argument": (lambda x: tf.cast(x, tf.int32), real),
    "inner": (lambda i: tf.while_loop(lambda n: n < 3, lambda n: n + tf.cast(table[i[0], 0], tf.int32), [0]), whole),
    "cholesky": (lambda x: tf.linalg.cholesky(x), square), "largest": (lambda x: tf.reduce_max(x), real),
    "range": (lambda i: table[i[0] : i[1]], whole), "first": (lambda x: x[0], real),
    "place": (lambda x: tf.argmax(x), real), "sorted": (lambda x: tf.sort(x), real),
    "resized": (lambda x: tf.image.resize(x[None, :, :, None], (9, 9)), square),
    "counted": (counted, square),
    "real power": (lambda x: x**x, real), "rows": (lambda i: tf.gather(table, i), whole), "trained": (trained, whole),
    "labels": (lambda i: tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.cast(tf.cast(i, tf.float32), tf.int64), tf.ones((2, 3))), whole),
    "size": (lambda x: tf.tile(x, [tf.shape(x)[0]]), real), "rounded": (lambda i: tf.cast(i / 1, tf.float32), whole),
}
told = {}
for name, (function, given) in cases.items():
    graph = kinds.Graph(tf.function(function, autograph=False).get_concrete_function(given))
    told[name] = xla.refusal([graph], bool(graph.changing)) or xla.unchecked(tf, [graph.concrete])
print(json.dumps(told))
"""
DONE = ("counted", "range", "first", "real power", "rows", "trained", "labels", "size", "rounded")


def test_what_xla_does_in_another_way_or_does_not_refuse_is_not_compiled(run):
    told = run(ELSEWHERE, mode="none").value
    assert {name for name, reason in told.items() if reason is None} == set(DONE), told
    assert told["item"] == "positions follow from what it is given (StridedSlice)"
    assert told["whole"] == "numbers become whole ones that they may not fit"


STATIC = """
class Scale:
    def __init__(self, factor):
        self.factor = factor

@tf.function
def train(x, kind):
    factor = kind.factor if isinstance(kind, Scale) else len(kind)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight) ** 2) * factor
    weight.assign_sub(0.01 * tape.gradient(loss, weight))
    return loss

def epoch(kind):
    return [float(train(data, kind)) for step in range(40)][-1]

def epochs():
    yield from (epoch(Scale(factor)) for factor in (1.0, 2.0, 3.0))
    yield from (epoch(kind) for kind in np.array(["mean", "else"]))

print(json.dumps(list(epochs())))
"""


def test_what_is_no_tensor_is_told_from_what_was_there_before_it(run):
    """An object may have the place in memory of one that is gone, and texts of NumPy have a shape and a type."""
    alone, tried = run(DATA + STATIC, mode="none"), run(DATA + STATIC, mode="none", levers=["tensorflow-jit-compile"])
    assert of(tried, "chosen") and not of(tried, "fallback")
    assert tried.value == pytest.approx(alone.value, rel=1e-4)
