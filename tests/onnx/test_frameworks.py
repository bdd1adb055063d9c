"""Models of every framework, as files that their users have: converted, equal, combined."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from modak_deploy.onnx.bundle import Bundle, read_bundle
from modak_deploy.onnx.convert import ConvertError, convert
from modak_deploy.onnx.request import load_request
from modak_deploy.onnx.runner import Runner

MAKE_KERAS = """
import sys, keras
keras.utils.set_random_seed(1)
layers = keras.layers
model = keras.Sequential([
    keras.Input((12, 12, 1)), layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(),
    layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3, activation="softmax"),
])
model.save(sys.argv[1] + "/cnn.keras")
scaled = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2)])
scaled.save(sys.argv[1] + "/lambda.keras")
"""
MAKE_TENSORFLOW = """
import sys, tensorflow as tf

signature = [tf.TensorSpec([None, 4], tf.float32, name="x")]

class Good(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.random.stateless_normal((4, 3), (1, 2)))

    @tf.function(input_signature=signature)
    def scores(self, x):
        return {"scores": tf.nn.softmax(tf.nn.gelu(x @ self.w))}

class Reads(tf.Module):
    @tf.function(input_signature=signature)
    def scores(self, x):
        return {"scores": x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)}

for name, model in (("good", Good()), ("reads", Reads())):
    tf.saved_model.save(model, sys.argv[1] + "/" + name, signatures=model.scores)
"""
JAX = """
import jax
import jax.numpy as jnp

def net(weights, x):
    return jax.nn.softmax(jax.nn.gelu(x @ weights["w"] + weights["b"]))

def branch(x):
    return jnp.sin(x) if x.sum() > 0 else jnp.cos(x)
"""
OFF = {"enabled": False}


def needs(*modules: str) -> None:
    """Skip the test where a package is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            extras = "convert-tensorflow,convert-jax,convert-trees"
            pytest.skip(f"{module} is not installed: pip install 'modak-deploy[{extras}]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Test data of the iris flowers, and models of scikit-learn."""
    needs("sklearn", "skl2onnx", "skops")
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
    from sklearn.svm import SVC
    from skops import io

    top = tmp_path_factory.mktemp("models")
    x, y = load_iris(return_X_y=True)
    x = x.astype("float32")
    columns = ColumnTransformer([("a", MinMaxScaler(), [0, 1]), ("b", StandardScaler(), [2, 3])])
    pipelines = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "svc": make_pipeline(PCA(3), SVC(probability=True, random_state=0)),
        "boosting": make_pipeline(columns, GradientBoostingClassifier(random_state=0)),
        "forest": make_pipeline(PolynomialFeatures(2), RandomForestRegressor(20, random_state=0)),
    }
    for name, pipeline in pipelines.items():
        io.dump(pipeline.fit(x, y), top / f"{name}.skops")
    np.save(top / "iris.npy", x[::3])
    (top / "net.py").write_text(JAX)
    generator = np.random.default_rng(0)
    np.savez(top / "net.npz", w=generator.standard_normal((4, 3)).astype("float32"), b=np.ones(3, "float32"))
    return top


def model(name: str, framework: str, **more: Any) -> dict[str, Any]:
    """Return a model of the iris data."""
    return {"name": name, "framework": framework, "example": "iris.npy", "test": "iris.npy", **more}


def run(folder: Path, name: str, models: list[dict[str, Any]], **more: Any) -> Bundle:
    """Convert the models."""
    (folder / f"{name}.yml").write_text(yaml.safe_dump({"name": name, "optimise": OFF, "models": models, **more}))
    return convert(load_request(folder / f"{name}.yml"), folder / name, base=folder)


def refused(folder: Path, name: str, models: list[dict[str, Any]], **more: Any) -> str:
    """Return why the models are not converted."""
    with pytest.raises(ConvertError) as caught:
        run(folder, name, models, **more)
    return str(caught.value)


def make(folder: Path, code: str) -> None:
    """Make models in a process of their own."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, env=environment, capture_output=True)


@pytest.mark.parametrize("name", ["logistic", "svc", "boosting", "forest"])
def test_scikit_learn(folder: Path, name: str) -> None:
    (entry,) = run(folder, name, [model(name, "sklearn", file=f"{name}.skops", trust=True)]).manifest.models
    assert entry.validation.status == "passed"
    assert entry.origin.sha256 is not None


@pytest.mark.parametrize(("framework", "suffix"), [("xgboost", "json"), ("lightgbm", "txt")])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_trees(folder: Path, framework: str, suffix: str, kind: str) -> None:
    needs(framework, "onnxmltools")
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    library = __import__(framework)
    trees = getattr(library, f"{'XGB' if framework == 'xgboost' else 'LGBM'}{kind}")(n_estimators=20)
    trees.fit(x.astype("float32"), y)
    file = folder / f"{framework}-{kind}.{suffix}"
    (trees if framework == "xgboost" else trees.booster_).save_model(file)
    (entry,) = run(folder, f"{framework}{kind}", [model("trees", framework, file=file.name)]).manifest.models
    assert entry.validation.status == "passed"


def test_keras_and_tensorflow(folder: Path) -> None:
    needs("keras", "tensorflow", "tf2onnx")
    make(folder, MAKE_KERAS)
    make(folder, MAKE_TENSORFLOW)
    cnn = model("cnn", "keras", file="cnn.keras", example={"image": {"shape": [2, 12, 12, 1]}}, test={"samples": 20})
    assert run(folder, "cnn", [cnn]).manifest.models[0].validation.status == "passed"
    assert run(folder, "tf", [model("tf", "tensorflow", file="good")]).manifest.models[0].validation.status == "passed"
    assert "has the operators ReadFile, by which it may read" in refused(
        folder, "outside", [model("tf", "tensorflow", file="reads")]
    )
    assert "trust: true" in refused(folder, "lambda", [model("keras", "keras", file="lambda.keras")])


def test_jax(folder: Path) -> None:
    needs("jax", "jax2onnx")
    net = model("net", "jax", code="net.py", file="net.npz", **{"class": "net:net"})
    assert run(folder, "jax", [net]).manifest.models[0].validation.status == "passed"
    branch = model("branch", "jax", code="net.py", **{"class": "net:branch"})
    assert "the control flow depends on the data" in refused(folder, "jaxbranch", [branch])


def test_mixed_ensemble_of_three_frameworks(folder: Path) -> None:
    needs("jax", "jax2onnx", "lightgbm", "onnxmltools")
    import lightgbm
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    lightgbm.LGBMClassifier(n_estimators=20).fit(x, y).booster_.save_model(folder / "mixed.txt")
    models = [
        model("logistic", "sklearn", file="logistic.skops", method="predict_proba"),
        model("trees", "lightgbm", file="mixed.txt"),
        model("net", "jax", code="net.py", file="net.npz", **{"class": "net:net"}),
    ]
    combine = {
        "rule": "weighted",
        "weights": {"logistic": 2.0, "trees": 1.0, "net": 1.0},
        "outputs": {"trees": "probabilities"},
    }
    bundle = run(folder, "mixed", models, combine=combine)
    assert bundle.manifest.ensemble_validation is not None
    assert bundle.manifest.ensemble_validation.status == "passed"
    found = Runner(read_bundle(folder / "mixed")).run({"input": np.load(folder / "iris.npy")})
    assert np.allclose(next(iter(found.values())).sum(axis=1), 1, atol=1e-5)


def test_search_of_passes_and_engines(folder: Path) -> None:
    needs("onnxslim")
    optimise = {"budget": 10, "batches": [1, 16]}
    bundle = run(folder, "fast", [model("svc", "sklearn", file="svc.skops", trust=True)], optimise=optimise)
    (entry,) = bundle.manifest.models
    assert {timing.engine for timing in entry.timings} >= {"sklearn", "onnxruntime"}
    assert {timing.batch for timing in entry.timings} == {1, 16}
    assert all(tried.reason for tried in entry.optimisations)
    assert sum(tried.kept for tried in entry.optimisations) <= 1
