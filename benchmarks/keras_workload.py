"""Train one of several small networks on random data, with plain Keras 3, and write the seconds of each epoch.

The networks differ in what they spend their time on: matrix products, convolutions, recurrence, attention.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers

CLASSES = 10


def mlp():
    return keras.Sequential(
        [keras.Input((784,)), *(layers.Dense(512, activation="relu") for _ in range(3)), layers.Dense(CLASSES)]
    )


def residual(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    if x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1)(x)
    return layers.Activation("relu")(layers.Add()([x, y]))


def resnet():
    start = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(start)
    for filters in (16, 32, 64):
        x = residual(x, filters)
        x = layers.MaxPooling2D(2)(x)
    return keras.Model(start, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def lstm():
    return keras.Sequential(
        [keras.Input((48, 64)), layers.LSTM(128, return_sequences=True), layers.LSTM(128), layers.Dense(CLASSES)]
    )


def transformer():
    start = keras.Input((64, 64))
    x = start
    for _ in range(2):
        x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 16)(x, x)]))
        y = layers.Dense(256, activation="gelu")(x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(64)(y)]))
    return keras.Model(start, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


def convnet():
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            *(layers.Conv2D(64, 3, activation="relu") for _ in range(4)),
            layers.MaxPooling2D(4),
            layers.Flatten(),
            layers.Dense(CLASSES),
        ]
    )


def wide():
    return keras.Sequential(
        [keras.Input((512,)), *(layers.Dense(2048, activation="relu") for _ in range(2)), layers.Dense(CLASSES)]
    )


def vgg():
    network = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (32, 64, 128):
        for _ in range(2):
            network.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
        network.add(layers.MaxPooling2D(2))
    for layer in (layers.Flatten(), layers.Dense(256, activation="relu"), layers.Dense(CLASSES)):
        network.add(layer)
    return network


def separable():
    network = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(32, 3, padding="same", activation="relu")])
    for filters in (64, 128, 128):
        network.add(layers.DepthwiseConv2D(3, padding="same", activation="relu"))
        network.add(layers.Conv2D(filters, 1, activation="relu"))
        network.add(layers.MaxPooling2D(2))
    for layer in (layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)):
        network.add(layer)
    return network


def gru():
    return keras.Sequential(
        [keras.Input((48, 64)), layers.GRU(128, return_sequences=True), layers.GRU(128), layers.Dense(CLASSES)]
    )


def conv1d():
    return keras.Sequential(
        [
            keras.Input((256, 32)),
            *(layers.Conv1D(128, 5, padding="same", activation="relu") for _ in range(3)),
            layers.GlobalAveragePooling1D(),
            layers.Dense(CLASSES),
        ]
    )


def mixer():
    start = keras.Input((64, 64))
    x = start
    for _ in range(3):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = layers.Dense(64)(layers.Dense(256, activation="gelu")(y))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        y = layers.Dense(256, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(64)(y)])
    return keras.Model(start, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


NETWORKS = {
    "mlp": mlp,
    "resnet": resnet,
    "lstm": lstm,
    "transformer": transformer,
    "convnet": convnet,
    "wide": wide,
    "vgg": vgg,
    "separable": separable,
    "gru": gru,
    "conv1d": conv1d,
    "mixer": mixer,
}


class EpochTimer(keras.callbacks.Callback):
    """Keep the seconds of each epoch by a clock."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = self.clock()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(self.clock() - self.begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: seconds of this process alone")
    parser.add_argument("--output", type=Path, default=Path("metrics.json"))
    args = parser.parse_args()
    keras.utils.set_random_seed(1)
    model = NETWORKS[args.network]()
    draw = np.random.default_rng(1)
    x = draw.standard_normal((args.samples, *model.input_shape[1:]), dtype="float32")
    y = draw.integers(0, CLASSES, args.samples)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)
    timer = EpochTimer(time.process_time if args.clock == "cpu" else time.perf_counter)
    model.fit(x, y, batch_size=args.batch, epochs=args.epochs, callbacks=[timer], verbose=0)
    metrics = {
        "parameters": model.count_params(),
        "first_epoch_seconds": round(timer.seconds[0], 4),
        "later_epoch_seconds": [round(s, 4) for s in timer.seconds[1:]],
        "train_images": args.samples,
    }
    args.output.write_text(json.dumps(metrics) + "\n")


if __name__ == "__main__":
    main()
