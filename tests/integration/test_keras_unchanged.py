"""What a Keras program draws, counts, changes and refuses is what it is without trials, with exact numerics."""

import pytest

from keras_parts import of, runner, together

JIT = {
    "candidates": ["keras-jit-compile"],
    "expected": {"keras-jit-compile": {"gain": 9, "seconds": 0.0}},
    "units": 1000,
}
BEGIN = """
import random
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.scale, self.traced = keras.layers.Dense(2), 1.0, 0
    def call(self, x):
        return self.dense(x)
    def draw(self, x):
        return x
    def train_step(self, data):
        self.traced += 1
        random.random()
        images, wanted = data
        with tf.GradientTape() as tape:
            loss = self.scale * keras.ops.mean((self(self.draw(images)) - wanted) ** 2)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss}
"""
DRAWN = """
class Noisy(Own):
    def draw(self, x):
        return x + tf.random.normal(tf.shape(x))
model = Noisy()
model.compile(optimizer="sgd")
history = model.fit(x, y, batch_size=32, epochs=10, verbose=0, shuffle=False)
print(json.dumps([history.history["loss"], random.random()]))
"""
PYTHON = """
class Warms(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.scale = 100.0  # without an effect: the step was traced before
model = Own()
model.compile(optimizer="sgd")
model.fit(x[:310], y[:310], batch_size=32, epochs=20, verbose=0, shuffle=False, callbacks=[Warms()])
for number in range(40):
    model.predict(x[:310], batch_size=32, verbose=0)
print(json.dumps([model.traced, random.random(), *weights(model)]))
"""
EAGER = """
calls = []
class Listed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def call(self, x):
        calls.append(len(calls))
        return self.dense(x)
model = Listed()
for number in range(200):
    model.predict_on_batch(x[:32])
tf.config.run_functions_eagerly(True)
for number in range(3):
    model.predict_on_batch(x[:32])
tf.config.run_functions_eagerly(False)
print(json.dumps(calls))
"""
REFUSED = """
xla, traced, steps = (sys.modules.get("modak_launch.frameworks." + name) for name in
                      ("tensorflow.xla", "keras.traced", "steps"))
if xla is None:
    from modak_launch.frameworks import steps
    from modak_launch.frameworks.keras import traced
    from modak_launch.frameworks.tensorflow import xla
model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(20, 8), keras.layers.Flatten(),
                          keras.layers.Dense(4)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
words, kinds = np.arange(160, dtype="int32").reshape(32, 5) % 20, np.arange(32) % 4
model.predict_on_batch(words)
model.train_on_batch(words, kinds)
predict, train = (xla.compiled(tf, traced.step_of(function.default))
                  for function in (model.predict_function, model.train_function))
told = []
for call, batch in ((predict, [(words,)]), (predict, [(words + 15,)]), (train, (words, kinds, None)),
                    (train, (words, kinds + 5, None)), (train, (words + 15, kinds, None))):
    try:
        call(batch)
        told.append("done")
    except steps.NotDone as error:
        told.append(str(error))
print(json.dumps(told))
"""
ASSERTED = """
class Small(keras.layers.Layer):
    def call(self, x):
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(x), 50.0)]):
            return tf.identity(x)
model = keras.Sequential([keras.Input((16,)), Small(), keras.layers.Dense(2)])
for number in range(60):
    model.predict_on_batch(x[:32])
try:
    print(json.dumps(float(model.predict_on_batch(x[:32] * 100).sum())))
except tf.errors.InvalidArgumentError:
    print(json.dumps("refused"))
"""
TEXTS = {
    "drawn": BEGIN + DRAWN, "truncated": BEGIN + DRAWN.replace("normal", "truncated_normal"),
    "python": BEGIN + PYTHON, "eager": EAGER, "asserted": ASSERTED,
}  # fmt: skip
JITTED = ("python", "eager")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return runner(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def alone(run):
    return together(run, TEXTS, mode="none")


@pytest.fixture(scope="module")
def compiled(run):
    return together(run, TEXTS, **JIT)


def test_random_numbers_go_on_where_memory_is_kept(run, alone):
    tried = run(TEXTS["drawn"], candidates=["keras-keep-memory"], units=1000)
    assert of(tried, "trying")
    assert tried.value == alone["drawn"].value


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_what_xla_compiles_is_what_the_program_does_alone(alone, compiled, name):
    own, tried = alone[name], compiled[name]
    assert bool(of(tried, "trying")) == (name in JITTED), tried.entries
    if name == "python":
        assert tried.value[:2] == own.value[:2], "nothing of Python's ran again"
        assert tried.value[2:] == pytest.approx(own.value[2:], rel=1e-4)
    else:
        assert tried.value == own.value


def test_numbers_that_a_table_or_a_loss_has_not_are_left_to_tensorflow(run):
    done = run(REFUSED, candidates=["keras-jit-compile"], units=1000)
    row, kind = (f"an argument holds numbers of rows that a table of {size} has not" for size in (20, 4))
    assert done.value == ["done", row, "done", kind, row]


ATTRIBUTES = """
model = dense()
model.predict_on_batch(x[:32])
function = model.predict_function
told = function.get_concrete_function([(tf.TensorSpec((None, 16)),)])([(tf.constant(x[:5]),)]).shape.as_list()
print(json.dumps([told, function.experimental_get_tracing_count(), hasattr(function, "nothing")]))
"""


def test_a_models_function_has_the_attributes_of_kerass_own(run):
    assert run(ATTRIBUTES, candidates=["keras-jit-compile"]).value == run(ATTRIBUTES, mode="none").value


def test_why_a_step_is_not_compiled_is_told(compiled):
    reasons = [entry["reason"] for entry in of(compiled["asserted"], "not_offered")]
    assert "it checks values, which XLA does not (Assert)" in reasons
