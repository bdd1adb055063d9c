"""The networks of Jordan et al., "Singularity for Machine Learning Applications", HPEC 2019: training and inference.

The study names 10 layers (3 convolutions of 3x3, 2 dense, 2 dropout) and 28 layers (8, 4, 6) for 256x256 images of two
channels in five classes; what the others are, and all widths, are chosen here. Images are random with a pattern for
each class, from a fixed seed. Needs Keras 3 and one of its backends.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers

CLASSES = 5


def small():
    return [
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(4),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(4),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Flatten(),
        layers.Dropout(0.3, seed=1),
        layers.Dense(64, activation="relu"),
        layers.Dropout(0.3, seed=2),
        layers.Dense(CLASSES),
    ]


def large():
    stack_layers = []
    for block, filters in enumerate((16, 32, 64, 64)):
        stack_layers += [layers.Conv2D(filters, 3, padding="same", activation="relu") for _ in range(2)]
        stack_layers += [layers.BatchNormalization(), layers.MaxPooling2D(2), layers.Dropout(0.2, seed=block)]
    stack_layers += [layers.Flatten()]
    for width in (128, 64, 32):
        stack_layers += [layers.Dense(width, activation="relu")]
    stack_layers += [layers.Dropout(0.3, seed=11), layers.BatchNormalization(), layers.Dropout(0.3, seed=12)]
    return [*stack_layers, layers.Dense(CLASSES)]


def data(images, size):
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, images)
    x = random.standard_normal((images, size, size, 2), dtype=np.float32)
    x[:, :: CLASSES + 1, :, 0] += labels[:, None, None]
    return x, labels


class Clock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", choices=["snn", "lnn"], default="snn")
    parser.add_argument("--phase", choices=["training", "inference"], default="training")
    parser.add_argument("--images", type=int, default=1526)
    parser.add_argument("--batch", type=int, default=301)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--size", type=int, default=256)
    options = parser.parse_args()
    keras.utils.set_random_seed(1)
    x, labels = data(options.images, options.size)
    stack = (small if options.network == "snn" else large)()
    model = keras.Sequential([keras.Input((options.size, options.size, 2)), *stack])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if options.phase == "training":
        clock = Clock()
        history = model.fit(
            x, labels, batch_size=options.batch, epochs=options.epochs, shuffle=False, verbose=0, callbacks=[clock]
        )
        seconds, result = clock.seconds, {"loss": float(history.history["loss"][-1])}
    else:
        seconds = []
        for _ in range(options.epochs):
            began = time.perf_counter()
            scores = model.predict(x, batch_size=options.batch, verbose=0)
            seconds.append(time.perf_counter() - began)
        result = {"scores": [float(value) for value in np.abs(scores).mean(axis=0)]}
    Path("result.json").write_text(json.dumps(result))
    metrics = {"first_epoch_seconds": seconds[0], "later_epoch_seconds": seconds[1:]}
    Path("metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
