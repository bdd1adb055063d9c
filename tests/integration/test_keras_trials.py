"""Levers are tried between the batches of Keras's fit and predict: each batch is computed once, whatever happens.

What is tried runs in a process of its own, which the launcher changes; what programs do alone is done in one process.
"""

import pytest

from keras_parts import of, runner, together


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the function that tells what a program prints without trials."""
    texts = [FIT, PREDICT, OWN_STEP, UNCOMPILABLE, OWN_FUNCTION, COUNTED_CALLS, SIZES]
    done = together(runner(tmp_path_factory.mktemp("alone")), {text: text for text in texts}, mode="none")
    return lambda text: done[text].value


@pytest.fixture(scope="module")
def as_they_are(tmp_path_factory):
    """Return the function that tells how a program ran that cannot be tried."""
    texts = {case: f"{text}{FINITE}" for case, (text, _) in HANDS_OFF.items()}
    levers = ["keras-jit-compile", "keras-mixed-bfloat16", "keras-tensorflow-bf16"]
    return together(runner(tmp_path_factory.mktemp("as-they-are")), texts, candidates=levers).__getitem__


COMPILED = {
    "candidates": ["keras-jit-compile"],
    "expected": {"keras-jit-compile": {"gain": 9, "seconds": 0.0}},
    "units": 1000,
}
FIT = """
model = dense()
seen = []
class Logs(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append((batch, float(logs["loss"])))
model.fit(x, y, batch_size=32, epochs=30, verbose=0, callbacks=[Logs()], shuffle=False)
print(json.dumps({"weights": weights(model), "batches": len(seen), "last": seen[-1], "policy": [
    layer.dtype_policy.name for layer in model.layers]}))
"""


def test_exact_trials_leave_the_weights_as_they_are_without(keras_program, alone):
    own = alone(FIT)
    tried = keras_program(FIT, **COMPILED)
    assert [entry["lever"] for entry in of(tried, "trying")] == ["keras-jit-compile"]
    assert of(tried, "trial")[0]["one_time"] > 0, "XLA compiled"
    assert tried.value["weights"] == pytest.approx(own["weights"], rel=1e-4)
    assert tried.value["batches"] == own["batches"] == 300
    assert tried.value["last"] == pytest.approx(own["last"], rel=1e-3)


def test_relaxed_trials_do_each_step_once_in_bf16(keras_program, alone):
    own = alone(FIT)
    names = ["keras-tensorflow-bf16", "keras-mixed-bfloat16"]
    expected = {"keras-mixed-bfloat16": {"gain": 9, "seconds": 0.0}}
    tried = keras_program(FIT, numerics="relaxed", candidates=names, expected=expected, units=1000)
    tried_names = [entry["lever"] for entry in of(tried, "trying")]
    if not tried_names:
        assert all("bf16" in entry["reason"] for entry in of(tried, "fallback"))
        pytest.skip("the processor has no bf16")
    assert "keras-mixed-bfloat16" in tried_names
    assert tried.value["weights"][-1] == own["weights"][-1] == 300
    assert tried.value["weights"] == pytest.approx(own["weights"], rel=0.05)
    assert tried.value["policy"] == ["float32", "float32"], "layers compute in bf16 while a step is traced only"


PREDICT = """
model = dense()
outputs = [model.predict(x, batch_size=32, verbose=0) for number in range(6)]
print(json.dumps({"types": sorted({str(output.dtype) for output in outputs}), "rows": [len(o) for o in outputs],
                  "sums": [float(np.abs(output).sum()) for output in outputs]}))
"""


def test_predictions_in_bf16_are_compared_and_given_back_in_single_precision(keras_program, alone):
    own = alone(PREDICT)
    expected = {"keras-mixed-bfloat16": {"gain": 9, "seconds": 0.0}}
    names = ["keras-mixed-bfloat16"]
    tried = keras_program(PREDICT, numerics="relaxed", candidates=names, expected=expected, units=1000)
    assert tried.value["types"] == ["float32"] and tried.value["rows"] == [320] * 6
    assert tried.value["sums"] == pytest.approx(own["sums"], rel=0.02)
    trials = of(tried, "trial")
    if trials:
        assert 1e-6 < trials[0]["difference"] < 0.05, "the number format did change"
    strict = keras_program(PREDICT, numerics="relaxed", candidates=names, expected=expected, units=1000, tolerance=1e-9)
    assert strict.value["sums"] == pytest.approx(own["sums"], rel=1e-6)
    assert all(entry["failed"] for entry in of(strict, "trial"))


FINITE = "\nprint(json.dumps(bool(np.isfinite(model.predict(x, verbose=0)).all())))"
HANDS_OFF = {
    "eagerly": (
        "model = dense(run_eagerly=True)\nmodel.fit(x, y, epochs=2, verbose=0)",
        "the model runs eagerly",
    ),
    "several batches in a call": (
        "model = dense(steps_per_execution=2)\nmodel.fit(x, y, epochs=2, verbose=0)",
        "the program does several batches in a call (steps_per_execution)",
    ),
    "a strategy": (
        "with tf.distribute.MirroredStrategy(['CPU:0']).scope():\n    model = dense()\n"
        "model.fit(x, y, epochs=2, verbose=0)",
        "the program distributes its work",
    ),
    "compiled already": (
        "model = dense(jit_compile=True)\nmodel.fit(x, y, epochs=2, verbose=0)",
        "nothing can be tried on it",
    ),
    "a step without a loss": (
        "class Own(keras.Model):\n"
        "    def __init__(self):\n        super().__init__()\n        self.dense = keras.layers.Dense(2)\n"
        "    def call(self, x):\n        return self.dense(x)\n"
        "    def train_step(self, data):\n        self.dense(data[0])\n        return {'accuracy': tf.constant(1.0)}\n"
        "model = Own()\nmodel.compile(optimizer='adam', loss='mse')\nmodel.fit(x, y, epochs=3, verbose=0)",
        "the step gives no loss to compare",
    ),
}


@pytest.mark.parametrize("case", sorted(HANDS_OFF))
def test_programs_that_cannot_be_tried_run_as_they_are(as_they_are, case):
    _, reason = HANDS_OFF[case]
    done = as_they_are(case)
    assert done.value is True
    assert reason in [entry["reason"] for entry in of(done, "no_trials")]
    assert not [entry for entry in of(done, "trying") if "train" in entry["of"]]


OWN_STEP = """
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        images, wanted = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self(images) - wanted) ** 2)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss}
model = Own()
model.compile(optimizer="sgd", loss="mse")
for again in range(2):
    worker = threading.Thread(target=lambda: model.fit(x, y, batch_size=32, epochs=3, verbose=0, shuffle=False))
    worker.start()
    worker.join()
print(json.dumps(weights(model)))
"""


def test_a_train_step_of_the_programs_own_fitted_twice_from_a_thread(keras_program, alone):
    own = alone(OWN_STEP)
    tried = keras_program(OWN_STEP, **COMPILED)
    assert [entry["lever"] for entry in of(tried, "trying")] == ["keras-jit-compile"]
    assert tried.value == pytest.approx(own, rel=1e-5)


UNCOMPILABLE = """
class Odd(keras.layers.Layer):
    def call(self, x):
        return tf.ensure_shape(tf.py_function(lambda value: value, [x], tf.float32), x.shape)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), Odd(), keras.layers.Dense(2)])
model.compile(optimizer="adam", loss="mse", jit_compile=False)
model.fit(x, y, batch_size=32, epochs=4, verbose=0, shuffle=False)
print(json.dumps(weights(model)))
"""


def test_a_step_that_xla_cannot_compile_is_done_again_without_it(keras_program, alone):
    own = alone(UNCOMPILABLE)
    tried = keras_program(UNCOMPILABLE, **COMPILED)
    assert tried.value == pytest.approx(own, rel=1e-6)
    assert "the step was done again without it" in of(tried, "fallback")[0]["reason"]
    assert "modak: keras-jit-compile is not used" in tried.stderr


NOISY_STEP = OWN_STEP.replace("self(images)", "self(images + keras.random.normal((32, 16)))")


def test_random_numbers_that_a_step_draws_itself_stay_the_programs(keras_program):
    alone = keras_program(NOISY_STEP, mode="none")
    tried = keras_program(NOISY_STEP, **COMPILED)
    reasons = [entry["reason"] for entry in of(tried, "not_offered")]
    assert "the step draws random numbers, and XLA draws others" in reasons
    assert tried.value == pytest.approx(alone.value, rel=1e-6)


OWN_FUNCTION = """
model = dense()
model.make_train_function()
inner, calls = model.train_function, []
def own(iterator):
    calls.append(1)
    return inner(iterator)
model.train_function = own
model.fit(x, y, batch_size=32, epochs=10, verbose=0, shuffle=False)
print(json.dumps([len(calls), *weights(model)]))
"""


def test_a_function_that_the_program_has_put_into_a_model_is_called_for_each_batch(keras_program, alone):
    own = alone(OWN_FUNCTION)
    tried = keras_program(OWN_FUNCTION, **COMPILED)
    assert tried.value[0] == own[0] == 100
    assert tried.value == pytest.approx(own, rel=1e-4)
    assert len(of(tried, "trying")) <= 1, "one function is tried, not one within another"


COUNTED_CALLS = """
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self.calls = tf.Variable(0)
    def call(self, x):
        self.calls.assign_add(1)
        return self.dense(x)
model = Own()
for number in range(4):
    model.predict(x, batch_size=32, verbose=0)
print(json.dumps(int(model.calls)))
"""


def test_predictions_that_change_what_keras_does_not_know_are_done_once(keras_program, alone):
    own = alone(COUNTED_CALLS)
    tried = keras_program(COUNTED_CALLS, **COMPILED)
    assert tried.value == own
    assert any("must not be repeated: Assign" in entry["reason"] for entry in of(tried, "no_trials"))


SIZES = """
model = dense()
for size in range(1, 41):
    model.fit(x[:size], y[:size], batch_size=size, epochs=3, verbose=0, shuffle=False)
print(json.dumps(weights(model)))
"""


def test_batches_of_many_sizes_leave_the_weights_as_they_are_without(keras_program, alone):
    own = alone(SIZES)
    tried = keras_program(SIZES, **COMPILED)
    assert tried.value == pytest.approx(own, rel=1e-3)


PIPELINES = """
model = dense()
made = []
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
own = ArrayDataAdapter.get_tf_dataset
def noted(self):
    made.append(own(self))
    return made[-1]
ArrayDataAdapter.get_tf_dataset = noted
total = float(np.abs(model.predict(x, batch_size=32, verbose=0)).sum())
model.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False)
print(json.dumps([weights(model), total, [one.options().autotune.enabled for one in made]]))
"""


def test_pipelines_of_arrays_that_do_not_tune_themselves_give_the_same_batches(keras_program):
    alone = keras_program(PIPELINES, mode="none")
    plain = keras_program(PIPELINES, mode="none", levers=["keras-plain-input"])
    assert plain.value[:2] == alone.value[:2]
    assert (alone.value[2], plain.value[2]) == ([None, None], [False, False])
    assert [entry["lever"] for entry in of(plain, "lever")] == ["keras-plain-input"]


def test_memory_is_kept_in_turns_with_the_default_and_changes_nothing(keras_program, alone):
    tried = keras_program(FIT, candidates=["keras-keep-memory"], units=1000)
    (trial,) = of(tried, "trial")
    assert (trial["variant"], trial["rival"], trial["failed"]) == ("keras-keep-memory", "default", False)
    assert trial["times"] and trial["rival_times"]
    assert tried.value == alone(FIT)


EPOCHS = """
model = dense()
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.005)
history = model.fit(x, y, batch_size=32, epochs=12, verbose=0, callbacks=[Slow()])
total = sum(float(np.abs(model.predict(x, batch_size=32, verbose=0)).sum()) for number in range(3))
print(json.dumps([history.history["loss"], total]))
"""


def test_pipelines_are_compared_between_epochs_and_shuffle_as_before(keras_program):
    alone = keras_program(EPOCHS, mode="none")
    tried = keras_program(EPOCHS, candidates=["keras-plain-input"], units=123)
    assert tried.value == alone.value
    assert of(tried, "fallback") == []
    for trial in of(tried, "trial"):  # epochs of 50 ms wait for the 70th, but not each of them
        assert (trial["of"], trial["variant"]) == ("keras: train of Sequential", "keras-plain-input")
        assert len(trial["times"]) >= 3 and len(trial["rival_times"]) >= 3
