"""What a Keras model consists of, by the shapes of its layers, against sums made by hand."""

import pytest

from modak_deploy.launch.frameworks.keras.work import features


@pytest.fixture(scope="module")
def keras():
    return pytest.importorskip("keras")


def test_a_network_of_convolutions_and_a_dense_layer(keras):
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((10, 10, 3)), layers.Conv2D(8, 3), layers.GlobalAveragePooling2D(), layers.Dense(4)]
    )
    seen = features(model, training=False)
    convolution, dense = 2 * 27 * 8 * 64, 2 * 8 * 4
    assert seen["flops_per_sample"] == convolution + dense
    assert (seen["parameters"], seen["layers"]) == (3 * 9 * 8 + 8 + 8 * 4 + 4, 2)
    assert seen["mix_convolution"] == pytest.approx(convolution / (convolution + dense))
    assert features(model, training=True)["flops_per_sample"] == 3 * (convolution + dense)


def test_recurrent_attention_and_nested_models(keras):
    layers = keras.layers
    inner = keras.Sequential([keras.Input((7, 16)), layers.Dense(16)])
    source = keras.Input((7, 16))
    attended = layers.MultiHeadAttention(num_heads=2, key_dim=8)(source, source)
    model = keras.Model(source, layers.LSTM(5)(inner(attended)))
    seen = features(model, training=False)
    attention, recurrent = 4 * 7 * 7 * 16, 2 * 7 * (16 * 20 + 5 * 20)
    dense = 2 * 7 * 16 * 16 + 2 * 7 * (4 * (16 * 16 + 16))  # the layers around the attention too, as in PyTorch
    assert seen["flops_per_sample"] == attention + recurrent + dense
    assert seen["mix_attention"] == pytest.approx(attention / seen["flops_per_sample"])
    assert seen["layers"] == 2 + 5


def test_values_of_an_attention_have_a_width_of_their_own(keras):
    layers = keras.layers
    source = keras.Input((7, 16))
    model = keras.Model(source, layers.MultiHeadAttention(num_heads=2, key_dim=8, value_dim=3)(source, source))
    seen = features(model, training=False)
    attention = 2 * 2 * 7 * 7 * (8 + 3)
    assert seen["mix_attention"] == pytest.approx(attention / (attention + 2 * 7 * model.count_params()))


def test_a_model_whose_layers_have_no_shapes(keras):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, inputs):
            return self.dense(inputs) + self.dense(inputs)

    model = Own()
    model(keras.ops.ones((2, 4)))
    assert features(model, training=True) == {"model": "Own", "parameters": 15}
