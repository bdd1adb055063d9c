"""The launcher counts units of work in unchanged programs of JAX, TensorFlow and scikit-learn, and changes nothing."""

import importlib.util
import sys

import pytest

from launch_parts import launch

COUNT = {"trials": {"mode": "none"}}

JAX = """
import copy, functools, inspect, warnings
import jax, jax.numpy as jnp
from jax import export

@jax.jit
def inner(x):
    "Twice."
    return 2 * x

@functools.partial(jax.jit, static_argnums=(1,))
def outer(x, n):
    return inner(x) + n

class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x):
        return x + 1

x = jnp.ones(3)
for _ in range(6):
    outer(x, 2)
Model().step(x)
assert isinstance(inner, jax.stages.Wrapped) and inner.__doc__ == "Twice." and str(inspect.signature(inner)) == "(x)"
assert jax.grad(lambda x: inner(x).sum())(x).tolist() == [2.0] * 3 and jax.vmap(inner)(x).tolist() == [2.0] * 3
assert inner.lower(x).compile()(x).tolist() == [2.0] * 3 and export.export(inner)(x)
inner.clear_cache()
class Holds:
    def __init__(self):
        self.step = jax.jit(lambda x: 2 * x)
assert copy.deepcopy(Holds()).step(3) == 6 and jax.jit(lambda **given: given["self"])(self=5) == 5
with jax.disable_jit(), warnings.catch_warnings(record=True) as caught:
    jax.jit(lambda x: warnings.warn("slow", stacklevel=2) or x)(1)
assert caught[0].filename == __file__, caught[0].filename
try:
    jax.jit(lambda x: {}["own"])(x)
except KeyError as error:
    print("own", error)
"""

TENSORFLOW = """
import tensorflow as tf

@tf.function
def inner(x):
    return 2 * x

@tf.function
def outer(x):
    return inner(x) + 1

class Model(tf.Module):
    @tf.function
    def step(self, x):
        return x + 1

for _ in range(6):
    outer(tf.ones(3))
Model().step(tf.ones(3))
print(list(tf.data.Dataset.range(2).map(lambda x: inner(x)).as_numpy_iterator()) == [0, 2])
"""

OWN = """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier

class Own(ClassifierMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.inner_ = RandomForestClassifier(3, n_jobs=2, random_state=0).fit(X, y)
        return self
    def predict(self, X):
        return self.inner_.predict(X)
"""
SKLEARN = """
import inspect, pickle
from own import Own
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.svm import SVC

X, y = make_classification(60, 5, n_informative=3, n_redundant=0, random_state=0)
for _ in range(6):
    model = clone(Own()).fit(X, y)
model = pickle.loads(pickle.dumps(model))
print((model.predict(X) == y).mean() > 0.5, hasattr(SVC(probability=False), "predict_proba"))
print(inspect.signature(SVC.fit))
try:
    SVC.fit()
except TypeError as error:
    print(".fit() missing" in str(error))
"""


@pytest.mark.parametrize(
    ("module", "program", "counted", "printed"),
    [
        ("jax", JAX, "jax: outer", "own 'own'\n"),
        ("tensorflow", TENSORFLOW, "tensorflow: outer", "True\n"),
        ("sklearn", SKLEARN, "sklearn: Own.fit", "True False\n(self, X, y, sample_weight=None)\nTrue\n"),
    ],
    ids=["jax", "tensorflow", "scikit-learn"],
)
def test_calls_are_counted_and_nothing_else_changes(module, program, counted, printed, tmp_path):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "program.py").write_text(program)
    done = launch([sys.executable, str(tmp_path / "program.py")], tmp_path, COUNT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    states = {entry["name"]: entry for entry in done.entries if entry["event"] == "state"}
    assert states[counted]["units"] == 6
    # What is done within a counted call belongs to it.
    assert not any(
        name in states for name in ("jax: inner", "tensorflow: inner", "sklearn: RandomForestClassifier.fit")
    )
    assert not [entry for entry in done.entries if entry["event"] == "fallback"]


PARALLEL = (
    OWN
    + """
import joblib
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score

def make():
    class Local(Own):
        def fit(self, X, y=None):
            return super().fit(X, y)
    return Local

X, y = make_classification(60, 5, n_informative=3, n_redundant=0, random_state=0)
for kind in (Own, make()):
    with joblib.parallel_backend("loky", n_jobs=2):
        print(cross_val_score(kind(), X, y, cv=2).mean() > 0.5)
"""
)


def test_estimators_of_the_script_travel_to_other_processes(tmp_path):
    (tmp_path / "program.py").write_text(PARALLEL)
    done = launch([sys.executable, str(tmp_path / "program.py")], tmp_path, COUNT)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


WARNING = """
import warnings
from sklearn.base import BaseEstimator

class Old(BaseEstimator):
    def fit(self, X, y=None):
        warnings.warn("fit is slow", stacklevel=2)
        warnings.warn("use train in place of fit", DeprecationWarning, stacklevel=2)
        return self
"""
BY_VALUE = """
import subprocess, sys
import cloudpickle
import own
from sklearn.datasets import make_classification

X, y = make_classification(60, 5, n_informative=3, n_redundant=0, random_state=0)
cloudpickle.register_pickle_by_value(own)
read = "import pickle, sys; own = pickle.load(sys.stdin.buffer); print(type(own).__name__, len(own.predict([[0] * 5])))"
data = cloudpickle.dumps(own.Own().fit(X, y))
sys.stdout.buffer.write(subprocess.run([sys.executable, "-I", "-c", read], input=data, capture_output=True).stdout)
"""


def test_warnings_of_estimators_are_about_the_line_that_calls_them(tmp_path):
    if importlib.util.find_spec("sklearn") is None:
        pytest.skip("sklearn is not installed")
    (tmp_path / "old.py").write_text(WARNING)
    (tmp_path / "program.py").write_text("from old import Old\nfor _ in range(3):\n    Old().fit([])\nOld().fit([])\n")
    done = launch([sys.executable, str(tmp_path / "program.py")], tmp_path, COUNT)
    lines = [line.split(":")[1:3] for line in done.stderr.splitlines() if "Warning: " in line]
    assert lines == [[line, f" {kind}"] for line in "34" for kind in ("UserWarning", "DeprecationWarning")], done.stderr


def test_estimators_that_are_pickled_by_value_need_no_launcher(tmp_path):
    if importlib.util.find_spec("sklearn") is None or importlib.util.find_spec("cloudpickle") is None:
        pytest.skip("sklearn or cloudpickle is not installed")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "program.py").write_text(BY_VALUE)
    done = launch([sys.executable, str(tmp_path / "program.py")], tmp_path, COUNT)
    assert (done.stdout, done.stderr) == ("Own 1\n", "")
