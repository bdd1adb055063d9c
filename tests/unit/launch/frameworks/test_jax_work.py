"""What a call of a jitted function consists of, against sums made by hand."""

import functools

import pytest

from modak_deploy.launch.frameworks.jax.work import features

WEIGHTS = {"kernel": (3, 3, 3, 8), "dense": (4 * 4 * 8, 8), "repeated": (8, 8)}
CONVOLUTION = 2 * 5 * 4 * 4 * 8 * 27
DENSE = 2 * 5 * 128 * 8 + 3 * 2 * 5 * 8 * 8


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.fixture
def weights(jax):
    return {name: jax.numpy.full(shape, 0.01) for name, shape in WEIGHTS.items()}


@pytest.fixture
def loss(jax):
    return functools.partial(_loss, jax)


def _loss(jax, w, x):
    numbers = ("NHWC", "HWIO", "NHWC")
    h = jax.lax.conv_general_dilated(x, w["kernel"], (2, 2), "SAME", dimension_numbers=numbers)
    h = h.reshape(len(h), -1) @ w["dense"]
    h, _ = jax.lax.scan(lambda carry, _: (jax.numpy.tanh(carry @ w["repeated"]), None), h, None, length=3)
    return (h**2).sum()


def test_convolution_products_and_a_scan(jax, weights, loss):
    seen = features(jax.jit(loss), (weights, jax.numpy.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == CONVOLUTION + DENSE
    assert seen["layers"] == 3
    assert seen["mix_convolution"] == pytest.approx(CONVOLUTION / (CONVOLUTION + DENSE))


def test_gradients_are_counted_where_they_are(jax, weights, loss):
    step = jax.jit(jax.value_and_grad(loss))
    seen = features(step, (weights, jax.numpy.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == 2 * CONVOLUTION + 3 * DENSE, "the gradient of the images is not asked for"
    both = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    seen = features(both, (weights, jax.numpy.ones((5, 8, 8, 3))), {})
    assert seen["flops"] == pytest.approx(3 * CONVOLUTION + 3 * DENSE)
    assert seen["layers"] == 3, "gradients are no layers"


def test_donated_arguments_and_no_second_trace(jax, weights):
    traced = []

    def step(w, x):
        traced.append(1)
        return {name: value - 0.1 for name, value in w.items()}, (x @ x).sum()

    jitted = jax.jit(step, donate_argnums=0)
    w, x = weights, jax.numpy.ones((4, 4))
    jitted(w, x)
    assert features(jitted, (w, x), {})["flops"] == 2 * 4 * 4 * 4
    assert traced == [1]


def test_work_that_depends_on_values_is_not_told(jax):
    loop = jax.jit(lambda x: jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c @ c, x))
    assert features(loop, (jax.numpy.ones((2, 2)),), {}) == {}
    branch = jax.jit(lambda x: jax.lax.cond(x.sum() > 0, lambda c: c @ c, lambda c: c, x))
    assert features(branch, (jax.numpy.ones((2, 2)),), {}) == {}
    harmless = jax.jit(lambda x: jax.lax.cond(x.sum() > 0, lambda c: c + 1, lambda c: c, x) @ x)
    assert features(harmless, (jax.numpy.ones((2, 2)),), {})["flops"] == 16


def test_work_that_no_jaxpr_shows_once_is_not_told(jax):
    x = jax.numpy.ones((2, 2))
    condition = jax.jit(lambda x: jax.lax.while_loop(lambda c: (c @ c).sum() < 10, lambda c: c + 1, x) @ x)
    solver = jax.jit(lambda x: x @ jax.scipy.sparse.linalg.cg(lambda v: x @ v, x[0])[0])
    for function in (condition, solver):
        assert features(function, (x,), {}) == {}


def test_functions_that_call_one_another_are_counted_once_each(jax):
    function = jax.jit(lambda x: x @ x)
    for _ in range(20):  # a million products

        def twice(x, inner=function):
            return inner(x) + inner(x)

        function = jax.jit(twice)
    assert features(function, (jax.numpy.ones((2, 2)),), {})["flops"] == 2**20 * 16
