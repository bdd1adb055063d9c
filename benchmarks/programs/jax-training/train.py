"""Train a perceptron on synthetic classes in plain JAX."""

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp

WIDTHS = (784, 1024, 1024, 10)


def forward(weights: list, inputs: jax.Array) -> jax.Array:
    """Return the scores of the classes."""
    x = inputs
    for matrix, bias in weights[:-1]:
        x = jax.nn.relu(x @ matrix + bias)
    matrix, bias = weights[-1]
    return x @ matrix + bias


def loss_of(weights: list, inputs: jax.Array, classes: jax.Array) -> jax.Array:
    """Return the mean cross-entropy."""
    scores = jax.nn.log_softmax(forward(weights, inputs))
    return -jnp.take_along_axis(scores, classes[:, None], axis=1).mean()


@jax.jit
def update(weights: list, inputs: jax.Array, classes: jax.Array) -> tuple[list, jax.Array]:
    """Return the weights after a step, and the loss."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, classes)
    return jax.tree.map(lambda weight, gradient: weight - 0.05 * gradient, weights, gradients), loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=300, help="steps")
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    key = jax.random.key(0)
    weights = []
    for before, after in itertools.pairwise(WIDTHS):
        key, own = jax.random.split(key)
        weights.append((jax.random.normal(own, (before, after)) * (2 / before) ** 0.5, jnp.zeros(after)))
    centres = jax.random.normal(key, (10, 784))
    times, losses = [], []
    for step in range(options.units):
        start = time.perf_counter()
        first, second = jax.random.split(jax.random.key(step))
        classes = jax.random.randint(first, (options.batch,), 0, 10)
        inputs = centres[classes] + 2 * jax.random.normal(second, (options.batch, 784))
        weights, loss = update(weights, inputs, classes)
        losses.append(float(loss))
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = statistics.mean(losses[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))


if __name__ == "__main__":
    main()
