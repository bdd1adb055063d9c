"""Levers of Keras that were chosen before the run: each function has the checks of a trial, and no trace is left."""

import pytest

from keras_parts import AT_ONCE, of, runner, together

JIT, MIXED, BF16 = "keras-jit-compile", "keras-mixed-bfloat16", "keras-tensorflow-bf16"
FIT = """
model = dense()
model.fit(x, y, batch_size=32, epochs=3, verbose=0, shuffle=False)
print(json.dumps(weights(model)))
"""
SEEN = """
model = dense()
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
outputs = [model.predict(x, batch_size=32, verbose=0) for number in range(3)]
print(json.dumps([model.jit_compile, model.get_compile_config()["jit_compile"], keras.config.dtype_policy().name,
                  [layer.dtype_policy.name for layer in model.layers], sorted({str(part.dtype) for part in outputs})]))
"""
REFUSED = """
words = keras.Input((5,), dtype="int64")
x = keras.layers.Flatten()(keras.layers.Embedding(20, 6)(words))
model = keras.Model(words, keras.layers.Dense(2)(x))
good = np.arange(20).reshape(4, 5)
for number in range(3):
    model.predict_on_batch(good)
try:
    model.predict_on_batch(good + 1)
    print(json.dumps("nothing"))
except tf.errors.InvalidArgumentError:
    print(json.dumps("refused"))
"""
UNCOMPILABLE = """
class Odd(keras.layers.Layer):
    def call(self, x):
        return tf.ensure_shape(tf.py_function(lambda value: value, [x], tf.float32), x.shape)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), Odd(), keras.layers.Dense(2)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False)
print(json.dumps(weights(model)))
"""
DRAWS = """
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False)
print(json.dumps(weights(model)))
"""
TEXTS = {"fit": FIT, "seen": SEEN, "refused": REFUSED, "uncompilable": UNCOMPILABLE, "draws": DRAWS}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return runner(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def alone(run):
    return together(run, TEXTS, mode="none")


@pytest.fixture(scope="module")
def compiled(run):
    return together(run, TEXTS, AT_ONCE, mode="none", levers=[JIT])


@pytest.fixture(scope="module")
def in_bf16(run):
    texts = {name: TEXTS[name] for name in ("fit", "seen")}
    return {lever: together(run, texts, AT_ONCE, mode="none", levers=[lever]) for lever in (MIXED, BF16)}


def chosen(done):
    """Return what was on from the second batch of a function on."""
    return [entry["variant"] for entry in of(done, "chosen")]


def test_training_is_compiled_with_the_same_weights(alone, compiled):
    assert chosen(compiled["fit"]) == [JIT] and not of(compiled["fit"], "fallback")
    assert compiled["fit"].value == pytest.approx(alone["fit"].value, rel=1e-4)


def test_the_program_does_not_see_it(alone, compiled):
    assert chosen(compiled["seen"]) == [JIT] * 2
    assert compiled["seen"].value == alone["seen"].value


def test_a_row_that_a_table_has_not_is_the_programs_error(alone, compiled):
    assert chosen(compiled["refused"]) == [JIT]
    assert compiled["refused"].value == alone["refused"].value == "refused"


def test_a_model_that_xla_cannot_compile_trains_without(alone, compiled):
    assert chosen(compiled["uncompilable"]) == [JIT]
    (fallback,) = of(compiled["uncompilable"], "fallback")
    assert "the step was done again without it" in fallback["reason"]
    assert compiled["uncompilable"].value == pytest.approx(alone["uncompilable"].value, rel=1e-6)


def test_random_numbers_stay_the_programs(alone, compiled):
    reasons = [entry["reason"] for entry in of(compiled["draws"], "not_offered")]
    assert reasons == ["a layer draws random numbers, and XLA draws others"]
    assert compiled["draws"].value == pytest.approx(alone["draws"].value, rel=1e-6)


@pytest.mark.parametrize("lever", [MIXED, BF16])
def test_bf16_is_within_the_steps_only(alone, in_bf16, lever):
    done = in_bf16[lever]
    if not chosen(done["fit"]):
        pytest.skip("the processor has no bf16")
    assert chosen(done["seen"]) == [lever] * 2 and not of(done["seen"], "fallback")
    assert done["seen"].value == alone["seen"].value
    assert done["fit"].value != alone["fit"].value, "the number format did change"
    assert done["fit"].value == pytest.approx(alone["fit"].value, rel=0.05)


def test_a_short_training_is_not_compiled(run, alone):
    done = run(FIT, mode="none", levers=[JIT])
    assert not chosen(done) and not of(done, "fallback")
    assert done.value == alone["fit"].value
