"""Models in which what is not a number may be lost are not OpenVINO's."""

import pytest

from modak_deploy.launch.frameworks import openvino_signs

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
numpy = pytest.importorskip("numpy")
operators = pytest.importorskip("openvino.opset13")


def constant(*numbers):
    return operators.constant(numpy.float32(numbers))


def mean(x):
    return operators.reduce_mean(x, operators.constant([1]), True)


def variance(x):
    return mean(operators.squared_difference(x, mean(x)))


MODELS = {
    "quotient": (lambda x: operators.relu(operators.divide(x, x)), "Relu"),
    "quotient that is kept": (lambda x: operators.add(operators.divide(x, x), constant(1)), None),
    "root": (lambda x: operators.clamp(operators.sqrt(x), 0, 1), "Clamp"),
    "root of a square": (lambda x: operators.relu(operators.sqrt(operators.multiply(x, x))), None),
    "root of two parts' product": (
        lambda x: operators.relu(operators.sqrt(operators.multiply(*operators.split(x, 1, 2).outputs()))),
        "Relu",
    ),
    "logarithm": (lambda x: operators.softmax(operators.log(x), 1), "Softmax"),
    "logarithm of more than nothing": (
        lambda x: operators.relu(operators.log(operators.add(operators.exp(x), constant(1)))),
        None,
    ),
    "norm": (
        lambda x: operators.relu(
            operators.multiply(x, operators.power(operators.add(variance(x), constant(1e-5)), constant(-0.5)))
        ),
        None,
    ),
    "norm without an epsilon": (
        lambda x: operators.relu(operators.multiply(x, operators.power(variance(x), constant(-0.5)))),
        "Relu",
    ),
    "clamped divisor": (
        lambda x: operators.relu(operators.divide(x, operators.maximum(operators.abs(x), constant(1e-9)))),
        None,
    ),
    "softmax": (lambda x: operators.relu(operators.softmax(x, 1)), None),
    "mask": (
        lambda x: operators.relu(operators.softmax(operators.add(x, constant(-numpy.inf, 0, 0, 0)), 1)),
        "Relu",
    ),
    "compared": (lambda x: operators.select(operators.less(operators.sqrt(x), constant(1)), x, constant(2)), None),
    "compared by what takes it for more": (
        lambda x: operators.select(operators.greater(operators.sqrt(x), constant(1)), x, constant(2)),
        "Greater",
    ),
    "unknown": (lambda x: operators.relu(operators.acos(x)), "Relu"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_what_may_lose_it_is_told(kind):
    make, lost = MODELS[kind]
    given = operators.parameter([2, 4], openvino.Type.f32)
    model = openvino.Model([make(given)], [given])
    reason = openvino_signs.loses(model)
    assert reason is None if lost is None else (reason or "").startswith(lost)
