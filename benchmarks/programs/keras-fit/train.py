"""Train Keras's MNIST example on synthetic digits with Model.fit."""

import argparse
import json
import statistics
import time
from pathlib import Path

import keras
import numpy as np

EPOCH = 20
"""Batches of an epoch."""


class Timer(keras.callbacks.Callback):
    """The seconds of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds.append(time.perf_counter() - self.start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=200, help=f"batches, in epochs of {EPOCH}")
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    shapes = rng.random((10, 28, 28, 1), dtype=np.float32)
    classes = rng.integers(0, 10, EPOCH * options.batch)
    images = shapes[classes] + 0.5 * rng.standard_normal((len(classes), 28, 28, 1), dtype=np.float32)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Dropout(0.25),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax", dtype="float32"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    timer = Timer()
    epochs = max(1, options.units // EPOCH)
    history = model.fit(images, classes, batch_size=options.batch, epochs=epochs, verbose=2, callbacks=[timer])
    later = timer.seconds[len(timer.seconds) * 2 // 3 :]
    values = {"seconds": sum(timer.seconds), "steady": statistics.median(later) / EPOCH}
    Path("metrics.json").write_text(json.dumps({**values, "result": history.history["loss"][-1]}))


if __name__ == "__main__":
    main()
