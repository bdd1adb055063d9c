"""Classify synthetic images with a Keras network and Model.predict."""

import argparse
import json
import statistics
import time
from pathlib import Path

import keras
import numpy as np


def block(x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
    """Return a residual block of two convolutions."""
    y = keras.layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = keras.layers.ReLU()(keras.layers.BatchNormalization()(y))
    y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = keras.layers.BatchNormalization()(y)
    if stride != 1 or x.shape[-1] != width:
        x = keras.layers.Conv2D(width, 1, strides=stride, use_bias=False)(x)
    return keras.layers.ReLU()(keras.layers.add([x, y]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="batches, 10 in a call of predict")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=112)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    inputs = keras.Input((options.size, options.size, 3))
    x = keras.layers.Conv2D(64, 7, strides=2, padding="same", activation="relu")(inputs)
    x = keras.layers.MaxPooling2D()(x)
    for width, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        x = block(x, width, stride)
    model = keras.Model(inputs, keras.layers.Dense(1000)(keras.layers.GlobalAveragePooling2D()(x)))
    images = np.random.default_rng(0).standard_normal((10 * options.batch, options.size, options.size, 3))
    images = images.astype(np.float32)
    times, total = [], 0.0
    for _ in range(max(1, options.units // 10)):
        start = time.perf_counter()
        total += float(np.abs(model.predict(images, batch_size=options.batch, verbose=0)).mean())
        times.append((time.perf_counter() - start) / 10)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    values = {"seconds": 10 * sum(times), "steady": steady, "result": total / len(times)}
    Path("metrics.json").write_text(json.dumps(values))


if __name__ == "__main__":
    main()
