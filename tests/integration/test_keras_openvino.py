"""Batches of Keras's predict done by OpenVINO: the program's results, or its own function where they would not be."""

import importlib.util
import json

import pytest

from keras_parts import AT_ONCE, of, runner, together

LEVER = "keras-openvino"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return the function that tells how a program ran alone, and with OpenVINO from the second batch on."""
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("openvino is not installed; 'pip install openvino' installs it")
    run = runner(tmp_path_factory.mktemp("programs"))
    texts = {
        "predict": PREDICT, "forms": FORMS, "loop": LOOP, "named": NAMED, "draws": DRAWS, "asserts": ASSERTS,
        "not finite": NOT_FINITE, "products": PRODUCTS,
        **{case: changing(case) for case in CHANGES}, **{str(case): refused(*case) for case in TABLES},
    }  # fmt: skip
    alone = together(run, texts, mode="none")
    chosen = together(run, texts, AT_ONCE, mode="none", levers=[LEVER])
    return lambda name: (alone[name], chosen[name])


def converted(done):
    """Tell whether OpenVINO has done the batches to the end."""
    return [entry["variant"] for entry in of(done, "chosen")] == [LEVER] and not of(done, "fallback")


PREDICT = """
model = dense()
outputs = [model.predict(x, batch_size=32, verbose=0) for number in range(30)]
print(json.dumps({"types": sorted({str(output.dtype) for output in outputs}), "rows": [len(o) for o in outputs],
                  "sums": [float(np.abs(output).sum()) for output in outputs]}))
"""


def test_it_is_tried_and_compared(keras_program, both):
    expected = {LEVER: {"gain": 9, "seconds": 0.0}}
    alone, chosen = both("predict")
    assert converted(chosen), chosen.entries
    tried = keras_program(PREDICT, candidates=[LEVER], expected=expected, units=1000)
    assert tried.value["types"] == ["float32"] and tried.value["rows"] == [320] * 30
    assert tried.value["sums"] == pytest.approx(alone.value["sums"], rel=1e-5)
    (trial,) = of(tried, "trial")
    assert not trial["failed"] and trial["difference"] < 1e-5
    assert trial["one_time"] > 0.05, "the conversion is what it costs"


def test_what_was_chosen_waits_until_the_program_has_worked_for_a_while(keras_program, both):
    done = keras_program(PREDICT, mode="none", levers=[LEVER])
    assert not of(done, "chosen") and not of(done, "fallback")


FORMS = """
words, numbers = keras.Input((5,), dtype="int64", name="words"), keras.Input((3,), name="numbers")
x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 6)(words))
x = keras.layers.concatenate([x, keras.layers.BatchNormalization()(numbers)])
outputs = {"b": keras.layers.Dense(2)(x), "a": [keras.layers.Dense(1)(x), keras.ops.cast(x[:, 0] > 0.0, "int32")]}
model = keras.Model({"words": words, "numbers": numbers}, outputs)
rng = np.random.default_rng(0)
data = {"words": rng.integers(0, 20, (100, 5)), "numbers": rng.standard_normal((100, 3)).astype("float32")}
for number in range(3):  # the last batch has another size
    found = model.predict(data, batch_size=32, verbose=0)
flat = [found["b"], *found["a"]]
print(json.dumps([[str(part.dtype), list(part.shape), float(np.abs(part).sum())] for part in flat]))
"""


def test_results_have_the_form_of_the_models(both):
    alone, chosen = both("forms")
    assert converted(chosen), chosen.entries
    for (kind, shape, total), (own_kind, own_shape, own_total) in zip(chosen.value, alone.value, strict=True):
        assert (kind, shape) == (own_kind, own_shape)
        assert total == pytest.approx(own_total, rel=1e-5)


LOOP = """
model = keras.Sequential([keras.Input((4, 4)), keras.layers.LSTM(3)])
print(json.dumps([float(model.predict(x.reshape(320, 4, 4), batch_size=32, verbose=0).sum()) for number in range(3)]))
"""


def test_what_cannot_be_converted_stays_kerass(both):
    alone, chosen = both("loop")
    assert chosen.value == alone.value
    assert "No conversion rule found" in of(chosen, "fallback")[0]["reason"]


CHANGE = "model.layers[-1].bias.assign_add([0.0, 1.0])"
TWICE = "for number in range(2):\n    sums.append(model.predict(x, batch_size=32, verbose=0))\n    "
CHANGES = {
    "training": TWICE + "model.fit(x, y, epochs=1, verbose=0, shuffle=False)",
    "one weight of one layer": TWICE + CHANGE,
    "other weights": TWICE + "model.set_weights([weight * 2 for weight in model.get_weights()])",
    "between batches": "for number in range(4):\n    sums.append(model.predict_on_batch(x[:32]))\n    " + CHANGE,
    "its own call of the function": """
model.predict_on_batch(x[:32])
for number in range(4):
    sums.append(model.predict_function([(x[:32],)]).numpy())
    """
    + CHANGE,
    "before a batch of another form": f"""
for number in range(2):
    model.predict(x[:96], batch_size=32, verbose=0)
{CHANGE}
sums.append(model.predict(x[:96], batch_size=64, verbose=0))
""",
    "a callback": f"""
class Moves(keras.callbacks.Callback):
    def on_predict_batch_end(self, batch, logs=None):
        {CHANGE.replace("model", "self.model")}
sums.append(model.predict(x, batch_size=32, verbose=0, callbacks=[Moves()]))
""",
    "a callback of lambdas": f"""
moves = keras.callbacks.LambdaCallback(on_predict_batch_end=lambda batch, logs: {CHANGE})
sums.append(model.predict(x, batch_size=32, verbose=0, callbacks=[moves]))
""",
}


def changing(case):
    """Return a program whose weights change."""
    text = "model = dense()\nsums = []\n" + CHANGES[case] + "\nsums.append(model.predict_on_batch(x[:32]))\n"
    return text + "print(json.dumps([np.abs(part).sum(axis=1).tolist() for part in sums]))"


@pytest.mark.parametrize("case", sorted(CHANGES))
def test_it_ends_where_the_weights_change(both, case):
    alone, chosen = both(case)
    for own, part in zip(alone.value, chosen.value, strict=True):
        assert part == pytest.approx(own, rel=1e-4)
    assert "the weights have changed since the model was converted" in json.dumps(chosen.entries)


NAMED = """
left, right = keras.Input((4,), name="z"), keras.Input((4,), name="a")
model = keras.Model([left, right], keras.layers.Dense(2)(left) - 3.0 * right[:, :2])
z, a = x[:, :4], x[:, 4:8]
sums = [np.abs(model.predict([z, a], batch_size=32, verbose=0)).sum() for number in range(3)]
sums += [np.abs(model.predict({"z": z, "a": a}, batch_size=32, verbose=0)).sum() for number in range(2)]
print(json.dumps([float(value) for value in sums]))
"""


def test_the_same_inputs_by_their_names_are_another_form(both):
    alone, chosen = both("named")
    assert of(chosen, "chosen")
    assert chosen.value == pytest.approx(alone.value, rel=1e-5)


REFUSED = """
words = keras.Input((5,), KIND)
x = keras.layers.Embedding(20, 6)(NUMBERS)
model = keras.Model(words, keras.layers.Dense(2)(keras.layers.Flatten()(x)))
good = np.arange(20).reshape(4, 5) - FIRST
for number in range(3):
    model.predict_on_batch(good)
try:
    model.predict_on_batch(good + 1)
    print(json.dumps("nothing"))
except tf.errors.InvalidArgumentError:
    print(json.dumps("refused"))
"""


# Why the lever is given up; it is not where the program's own call is refused as well.
TABLES = {
    ("dtype='int64'", "words", 0): None,
    ("dtype='float32'", "words", 0): None,
    ("dtype='int64'", "words + 1", 1): "taken by numbers that are computed",
}


def refused(kind, numbers, first):
    """Return a program that asks for a row that a table has not."""
    return REFUSED.replace("KIND", kind).replace("NUMBERS", numbers).replace("FIRST", str(first))


@pytest.mark.parametrize("case", TABLES)
def test_a_row_that_a_table_has_not_is_the_programs_error(both, case):
    alone, chosen = both(str(case))
    assert chosen.value == alone.value == "refused"
    assert of(chosen, "chosen")
    assert [TABLES[case] in one["reason"] for one in of(chosen, "fallback")] == [True] * bool(TABLES[case])


NOT_FINITE = """
model = keras.Sequential([keras.Input((4, 4)), keras.layers.Dense(2), keras.layers.GlobalMaxPooling1D()])
images = x.reshape(320, 4, 4)[:32]
for number in range(4):
    model.predict_on_batch(images)
images[3, 2, 1] = np.nan
print(json.dumps(np.isnan(model.predict_on_batch(images)).any(axis=1).nonzero()[0].tolist()))
"""


def test_what_is_not_a_number_stays_so(both):
    alone, chosen = both("not finite")
    assert of(chosen, "chosen") and "not finite" in of(chosen, "fallback")[0]["reason"]
    assert chosen.value == alone.value == [3]


PRODUCTS = """
class Hashed(keras.layers.Layer):
    def call(self, numbers):
        return tf.cast((numbers * 1000) % 997, tf.float32)
model = keras.Sequential([keras.Input((4,), dtype="int64"), Hashed(), keras.layers.Dense(2)])
small = np.arange(128).reshape(32, 4)
sums = [float(model.predict_on_batch(small).sum()) for number in range(3)]
print(json.dumps([*sums, float(model.predict_on_batch(small + 5_000_000).sum())]))
"""


def test_products_of_whole_numbers_stay_tensorflows(both):
    alone, chosen = both("products")
    assert chosen.value == alone.value
    assert "whole numbers" in of(chosen, "fallback")[0]["reason"]


DRAWS = """
class Noise(keras.layers.Layer):
    def call(self, x):
        return x + tf.random.stateless_normal(tf.shape(x), seed=[1, 2])
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(2), Noise()])
print(json.dumps([float(np.abs(model.predict(x, batch_size=32, verbose=0)).sum()) for number in range(3)]))
"""
ASSERTS = """
class Positive(keras.layers.Layer):
    def call(self, x):
        with tf.control_dependencies([tf.debugging.assert_greater(x, -100.0)]):
            return tf.identity(x)
model = keras.Sequential([keras.Input((16,)), Positive(), keras.layers.Dense(2)])
print(json.dumps([float(np.abs(model.predict(x, batch_size=32, verbose=0)).sum()) for number in range(3)]))
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("draws", "the function draws random numbers, and OpenVINO draws others"),
        ("asserts", "it checks values, which OpenVINO does not (Assert)"),
    ],
)
def test_functions_of_which_openvino_leaves_something_out_are_not_converted(both, name, reason):
    alone, chosen = both(name)
    assert chosen.value == alone.value
    assert reason in [entry["reason"] for entry in of(chosen, "not_offered") if entry["lever"] == LEVER]
