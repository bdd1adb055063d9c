"""Trials of TensorFlow's functions, as far as no TensorFlow is needed."""

import copy
import pickle
from collections import namedtuple
from types import SimpleNamespace

import pytest

from modak_deploy.launch.frameworks import tensorflow as adapter
from modak_deploy.launch.frameworks.tensorflow import calls, xla

Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")


class Function:
    """What tf.function returns."""

    def __init__(self, python_function):
        self.python_function = python_function

    def __call__(self, *args):
        return self.python_function(*args)


@pytest.fixture
def tensorflow():
    return SimpleNamespace(
        function=type("Own", (Function,), {}), executing_eagerly=lambda: True, nest=SimpleNamespace(flatten=flatten)
    )


def flatten(value):
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    return [leaf for one in value for leaf in flatten(one)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_trials_stay_out_of_copies(session_of, again):
    trials = calls.Function(session_of(), None, Function(len), Function.__call__)
    assert again(trials) is None


def test_a_copied_function_has_trials_of_its_own(session_of, tensorflow, monkeypatch):
    monkeypatch.setattr(calls.Function, "__call__", lambda self, *args: self.default(*args))
    adapter.install(session_of(), tensorflow, "2.21.0")
    first = tensorflow.function(len)
    assert first("ab") == 2
    second = copy.copy(first)
    assert second("abc") == 3
    assert second.__dict__[adapter.TRIED].of(second) and first.__dict__[adapter.TRIED].of(first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((1.0, True), {}), ((1.0, False), {})),
        (((1.0, True), {}), ((1.0, 1), {})),
        ((("x",), {"a": 1}), (("x",), {"b": 1})),
        ((("x",), {"a": 1}), (("x", 1), {})),
        ((({"a": 1},), {}), (({"b": 1},), {})),
        ((([1],), {}), (((1,),), {})),
        (((Pair(1, 2),), {}), ((Other(1, 2),), {})),
    ],
)
def test_what_is_no_tensor_counts_by_its_value_and_name(tensorflow, one, other):
    assert calls._signature(tensorflow, *one) == calls._signature(tensorflow, *one)
    assert calls._signature(tensorflow, *one) != calls._signature(tensorflow, *other)


class Space:
    """What has a shape and a type and is no tensor, as a space of observations."""

    shape, dtype = (2,), "float32"


def test_what_has_a_shape_and_a_type_and_is_no_tensor_counts_by_itself(tensorflow):
    numpy = pytest.importorskip("numpy")
    spaces = Space(), Space()
    pairs = [spaces, (numpy.float32, numpy.float64), (numpy.str_("relu"), numpy.str_("tanh"))]
    for one, other in pairs:
        assert calls._signature(tensorflow, (one,), {}) == calls._signature(tensorflow, (one,), {})
        assert calls._signature(tensorflow, (one,), {}) != calls._signature(tensorflow, (other,), {})
    arrays = numpy.zeros(3), numpy.ones(3)
    assert len({calls._signature(tensorflow, (array,), {}) for array in arrays}) == 1


def test_an_object_is_another_one_where_it_has_the_place_in_memory_of_one_that_is_gone(tensorflow):
    class Settings:
        pass

    places = []
    for _ in range(2):
        settings = Settings()
        places.append((id(settings), calls._signature(tensorflow, (settings,), {})))
        del settings
    assert places[0][0] == places[1][0], "this Python does not use the place again"
    assert places[0][1] != places[1][1]


def test_what_is_compiled_for_several_models_is_not_taken_for_a_function_that_is_traced_often(monkeypatch):
    monkeypatch.setattr(xla, "_begin", lambda tensorflow: None)
    tensorflow = SimpleNamespace(function=lambda function, **options: SimpleNamespace(function=function, **options))
    first, second = (xla.jitted(tensorflow, function, reduce_retracing=True) for function in (len, max))
    assert first._omit_frequent_tracing_warning and first.jit_compile and first.reduce_retracing
    assert first._key_for_call_stats != second._key_for_call_stats
