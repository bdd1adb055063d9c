"""Train a small convolutional network by a loop of TensorFlow's own: tf.function, GradientTape, no Keras."""

import argparse
import json
import statistics
import time
from pathlib import Path

import tensorflow as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=200, help="steps")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    tf.random.set_seed(0)
    shapes = [(3, 3, 1, 32), (3, 3, 32, 64), (9216, 128), (128, 10)]
    weights = [tf.Variable(tf.random.normal(shape, stddev=0.05)) for shape in shapes]
    velocities = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    digits = tf.random.uniform((10, 28, 28, 1))

    def network(images: tf.Tensor) -> tf.Tensor:
        x = tf.nn.relu(tf.nn.conv2d(images, weights[0], 1, "VALID"))
        x = tf.nn.relu(tf.nn.conv2d(x, weights[1], 1, "VALID"))
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), (options.batch, -1))
        return tf.nn.relu(x @ weights[2]) @ weights[3]

    @tf.function
    def train(images: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=network(images))
            loss = tf.reduce_mean(losses)
        for weight, velocity, gradient in zip(weights, velocities, tape.gradient(loss, weights), strict=True):
            velocity.assign(0.9 * velocity - 0.01 * gradient)
            weight.assign_add(velocity)
        return loss

    times, values = [], []
    for step in range(options.units):
        start = time.perf_counter()
        classes = tf.random.uniform((options.batch,), 0, 10, tf.int32)
        images = tf.gather(digits, classes) + 0.3 * tf.random.normal((options.batch, 28, 28, 1))
        values.append(float(train(images, classes)))
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step}: loss {values[-1]:.4f}", flush=True)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = statistics.mean(values[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))


if __name__ == "__main__":
    main()
