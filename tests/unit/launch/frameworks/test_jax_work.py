"""What a call of a jitted function consists of, against sums made by hand."""

import pytest

from modak_deploy.launch.frameworks.jax.work import features

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
WEIGHTS = {"kernel": (3, 3, 3, 8), "dense": (4 * 4 * 8, 8), "repeated": (8, 8)}
CONVOLUTION = 2 * 5 * 4 * 4 * 8 * 27
DENSE = 2 * 5 * 128 * 8 + 3 * 2 * 5 * 8 * 8


def weights():
    return {name: jnp.full(shape, 0.01) for name, shape in WEIGHTS.items()}


def loss(w, x):
    numbers = ("NHWC", "HWIO", "NHWC")
    h = jax.lax.conv_general_dilated(x, w["kernel"], (2, 2), "SAME", dimension_numbers=numbers)
    h = h.reshape(len(h), -1) @ w["dense"]
    h, _ = jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ w["repeated"]), None), h, None, length=3)
    return (h**2).sum()


def test_convolution_products_and_a_scan():
    seen = features(jax.jit(loss), (weights(), jnp.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == CONVOLUTION + DENSE
    assert seen["layers"] == 3
    assert seen["mix_convolution"] == pytest.approx(CONVOLUTION / (CONVOLUTION + DENSE))


def test_gradients_are_counted_where_they_are():
    step = jax.jit(jax.value_and_grad(loss))
    seen = features(step, (weights(), jnp.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == 2 * CONVOLUTION + 3 * DENSE, "the gradient of the images is not asked for"
    both = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    seen = features(both, (weights(), jnp.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == pytest.approx(3 * CONVOLUTION + 3 * DENSE)


def test_donated_arguments_and_no_second_trace():
    traced = []

    def step(w, x):
        traced.append(1)
        return {name: value - 0.1 for name, value in w.items()}, (x @ x).sum()

    jitted = jax.jit(step, donate_argnums=0)
    w, x = weights(), jnp.ones((4, 4))
    jitted(w, x)
    assert features(jitted, (w, x), {})["flops"] == 2 * 4 * 4 * 4
    assert traced == [1]


def test_work_that_depends_on_values_is_not_told():
    loop = jax.jit(lambda x: jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c @ c, x))
    assert features(loop, (jnp.ones((2, 2)),), {}) == {}
    branch = jax.jit(lambda x: jax.lax.cond(x.sum() > 0, lambda c: c @ c, lambda c: c, x))
    assert features(branch, (jnp.ones((2, 2)),), {}) == {}
    harmless = jax.jit(lambda x: jax.lax.cond(x.sum() > 0, lambda c: c + 1, lambda c: c, x) @ x)
    assert features(harmless, (jnp.ones((2, 2)),), {})["flops"] == 16
