"""Train the MNIST-CNN of the MODAK paper on handwritten digits, with plain Keras 3.

Without --data it reads the UCI handwritten digits that ship inside scikit-learn (1,797 images of 8x8, resized to
28x28); with --data it reads MNIST in the usual npz layout (x_train, y_train, x_test, y_test). The result is a JSON
file with the accuracy on the held-out images and the seconds of each epoch.
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
SIDE = 28


def load_digits_28(seed):
    """Return the UCI digits as (x_train, y_train, x_test, y_test), a stratified fifth held out."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16.0
    images = zoom(images, (1, SIDE / 8, SIDE / 8), order=1)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.2, random_state=seed, stratify=labels
    )
    return x_train, y_train, x_test, y_test


def load_mnist(path):
    """Return (x_train, y_train, x_test, y_test) from an MNIST npz file."""
    with np.load(path, allow_pickle=False) as data:
        return data["x_train"] / 255.0, data["y_train"], data["x_test"] / 255.0, data["y_test"]


def build_model():
    """Return the paper's MNIST-CNN: 1,199,882 parameters."""
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),
        ]
    )


class EpochTimer(keras.callbacks.Callback):
    """Keep the wall seconds of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.begin)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="MNIST as an npz file; default: scikit-learn's digits")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="at the start; it falls to 0 as a cosine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("metrics.json"))
    return parser.parse_args()


def main():
    args = parse_arguments()
    keras.utils.set_random_seed(args.seed)
    x_train, y_train, x_test, y_test = load_mnist(args.data) if args.data else load_digits_28(args.seed)
    x_train, x_test = (np.asarray(x, dtype="float32")[..., np.newaxis] for x in (x_train, x_test))

    model = build_model()
    steps = args.epochs * -(-len(x_train) // args.batch)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(args.learning_rate, steps))
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    timer = EpochTimer()
    model.fit(x_train, y_train, batch_size=args.batch, epochs=args.epochs, callbacks=[timer], verbose=2)
    _loss, accuracy = model.evaluate(x_test, y_test, batch_size=args.batch, verbose=0)

    metrics = {
        "accuracy": round(float(accuracy), 4),
        "parameters": model.count_params(),
        "epochs": args.epochs,
        "first_epoch_seconds": round(timer.seconds[0], 4),
        "later_epoch_seconds": [round(s, 4) for s in timer.seconds[1:]],
        "train_images": len(x_train),
        "test_images": len(x_test),
        "backend": keras.backend.backend(),
        "dtype_policy": keras.config.dtype_policy().name,
    }
    args.output.write_text(json.dumps(metrics, indent=2) + "\n")
    print(f"accuracy {metrics['accuracy']:.4f} on {len(x_test)} held-out images; written to {args.output}")


if __name__ == "__main__":
    main()
