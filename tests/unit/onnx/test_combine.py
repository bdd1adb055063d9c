"""Ensembles as one graph: the same numbers as the models run one by one and combined by NumPy."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from modak_deploy.errors import InputError
from modak_deploy.onnx.bundle import write_bundle
from modak_deploy.onnx.combine import combine, write_ensemble
from modak_deploy.onnx.manifest import Combination, Manifest
from onnxparts import bundle, entry, linear

RNG = np.random.default_rng(7)
X = RNG.normal(size=(11, 4)).astype(np.float32)
WEIGHTS = [RNG.normal(size=(4, 3)) for _ in range(3)]


def models(*, softmax=True, **options):
    return {f"m{i}": linear(weights, softmax=softmax, **options) for i, weights in enumerate(WEIGHTS)}


def run(model, **inputs):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def each(parts, x=X):
    return [next(iter(run(model, **{model.graph.input[0].name: x}).values())) for model in parts.values()]


def test_mean():
    parts = models()
    merged = combine(parts, Combination(rule="mean"))
    onnx.checker.check_model(merged, full_check=True)
    np.testing.assert_allclose(run(merged, x=X)["y"], np.mean(each(parts), axis=0), rtol=1e-6)
    names = [node.name for node in merged.graph.node if node.name]
    assert len(names) == len(set(names))


def test_weighted_mean():
    parts = models(softmax=False)
    merged = combine(parts, Combination(rule="weighted", weights={"m0": 1.0, "m1": 2.0, "m2": 0.0}))
    one, two, _ = each(parts)
    np.testing.assert_allclose(run(merged, x=X)["y"], (one + 2 * two) / 3, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weights", [{}, {"m0": 0.1, "m1": 0.2, "m2": 0.3}, {"m0": 5.0}])
def test_vote_of_scores(weights):
    parts = models()
    answer = run(combine(parts, Combination(rule="vote", weights=weights)), x=X)
    by_model = [weights.get(name, 1.0) for name in parts]
    counts = np.zeros((len(X), 3))
    for weight, scores in zip(by_model, each(parts), strict=True):
        counts[np.arange(len(X)), scores.argmax(1)] += weight
    nearly = counts >= counts.max(1, keepdims=True) - 1e-6
    np.testing.assert_array_equal(answer["label"], nearly.argmax(1))
    np.testing.assert_allclose(answer["agreement"], counts.max(1) / sum(by_model), rtol=1e-5)


def test_vote_of_labels_takes_the_lowest_of_those_with_most():
    def labels(values):
        node = helper.make_node("Gather", ["table", "i"], ["label"])
        graph = helper.make_graph(
            [node],
            "labels",
            [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])],
            [helper.make_tensor_value_info("label", TensorProto.INT64, ["n"])],
            [numpy_helper.from_array(np.array(values, np.int64), "table")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)

    parts = {"a": labels([7, -5, 3]), "b": labels([7, 2**40, 2]), "c": labels([1, 3, 1])}
    answer = run(combine(parts, Combination(rule="vote")), i=np.array([0, 1, 2, 0]))
    np.testing.assert_array_equal(answer["label"], [7, -5, 1, 7])
    np.testing.assert_allclose(answer["agreement"], [2 / 3, 1 / 3, 1 / 3, 2 / 3], rtol=1e-6)


def test_stacking():
    parts = models() | {"top": linear(RNG.normal(size=(9, 2)), names=("features", "score"))}
    merged = combine(parts, Combination(rule="stacking", meta="top"))
    base = {name: model for name, model in parts.items() if name != "top"}
    joined = np.concatenate(each(base), axis=1)
    np.testing.assert_allclose(run(merged, x=X)["score"], run(parts["top"], features=joined)["score"], rtol=1e-5)


def test_pipeline():
    parts = {"scale": linear(np.eye(4) * 2), "head": linear(WEIGHTS[0], names=("features", "score"))}
    for connect in ([], [{"features": "y"}]):
        merged = combine(parts, Combination(rule="pipeline", connect=connect))
        np.testing.assert_allclose(
            run(merged, x=X)["score"], X * 2 @ WEIGHTS[0].astype(np.float32), rtol=1e-5, atol=1e-6
        )


def test_a_pipeline_whose_models_share_names_with_one_another():
    parts = {"one": linear(np.eye(4), names=("x", "x2")), "two": linear(np.eye(4), names=("x2", "x"))}
    np.testing.assert_allclose(run(combine(parts, Combination(rule="pipeline")), x=X)["x.out"], X, rtol=1e-6)


def test_other_names_and_types_of_inputs_and_outputs():
    parts = models() | {"other": linear(WEIGHTS[1], names=("X", "probabilities"), softmax=True)}
    merged = combine(parts, Combination(rule="mean"))
    assert [(value.name, value.type.tensor_type.shape.dim[0].dim_param) for value in merged.graph.input] == [
        ("x", "batch")
    ]
    np.testing.assert_allclose(run(merged, x=X)["output"], np.mean(each(parts), axis=0), rtol=1e-6)


def test_inputs_that_do_not_fit_are_inputs_of_their_own():
    parts = {"a": linear(np.ones((4, 2))), "b": linear(np.ones((5, 2)))}
    merged = combine(parts, Combination(rule="mean"))
    wide = np.ones((11, 5), np.float32)
    assert sorted(value.name for value in merged.graph.input) == ["b.x", "x"]
    np.testing.assert_allclose(run(merged, **{"x": X, "b.x": wide})["y"][:, 0], (X.sum(1) + 5) / 2, rtol=1e-5)
    named = combine(parts, Combination(rule="mean", inputs={"b": {"x": "wide"}}))
    assert sorted(value.name for value in named.graph.input) == ["wide", "x"]
    with pytest.raises(InputError, match=r"combination\.inputs\.b\.x: .* does not fit the ensemble's input"):
        combine(parts, Combination(rule="mean", inputs={"b": {"x": "x"}}))
    with pytest.raises(InputError, match="two tensors are named 'b/w'"):
        combine(parts, Combination(rule="mean", inputs={"b": {"x": "b/w"}}))


def test_operator_sets_are_brought_to_one_version():
    parts = {"old": linear(WEIGHTS[0], softmax=True, opset=11), "new": linear(WEIGHTS[1], softmax=True, opset=18)}
    merged = combine(parts, Combination(rule="mean"))
    assert [(entry.domain, entry.version) for entry in merged.opset_import] == [("", 18)]
    np.testing.assert_allclose(run(merged, x=X)["y"], np.mean(each(parts), axis=0), rtol=1e-5)


def test_equal_initialisers_are_kept_once():
    shared = linear(np.ones((4, 3)))
    merged = combine({"a": shared, "b": shared, "c": linear(WEIGHTS[0])}, Combination(rule="mean"))
    matrices = [tensor.name for tensor in merged.graph.initializer if list(tensor.dims) == [4, 3]]
    assert sorted(matrices) == ["a/w", "c/w"]
    np.testing.assert_allclose(
        run(merged, x=X)["y"],
        (2 * X.sum(1, keepdims=True) + X @ WEIGHTS[0].astype(np.float32)) / 3,
        rtol=1e-4,
        atol=1e-5,
    )


def test_subgraphs_keep_their_outer_tensors():
    def branch(name, factor):
        nodes = [helper.make_node("Mul", ["x", factor], [f"{name}_out"])]
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [out])

    def conditional(low, high):
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["positive"]),
            helper.make_node(
                "If", ["positive"], ["y"], then_branch=branch("then", "hi"), else_branch=branch("else", "lo")
            ),
        ]
        graph = helper.make_graph(
            nodes,
            "conditional",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
            [numpy_helper.from_array(np.float32(v), n) for n, v in (("zero", 0), ("lo", low), ("hi", high))],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    merged = combine({"a": conditional(2, 3), "b": conditional(3, 5)}, Combination(rule="mean"))
    ones = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(run(merged, x=ones)["y"], ones * 4)
    np.testing.assert_allclose(run(merged, x=-ones)["y"], -ones * 2.5)


@pytest.mark.parametrize(
    ("parts", "rule", "problem"),
    [
        ({"a": linear(np.ones((4, 2))), "b": linear(np.ones((4, 3)))}, {"rule": "mean"}, "needs outputs of one shape"),
        (
            {"a": linear(np.ones((4, 1))), "b": linear(np.ones((4, 1)))},
            {"rule": "vote"},
            "'vote' needs whole-number labels",
        ),
        (
            {"a": linear(np.ones((4, 2))), "top": linear(np.ones((3, 2)))},
            {"rule": "stacking", "meta": "top"},
            "'top' takes 3 columns, and the models give 2",
        ),
        (
            {"a": linear(np.ones((4, 2))), "b": linear(np.ones((3, 2)))},
            {"rule": "pipeline"},
            r"combination\.connect\[0\]\.x: .* does not fit",
        ),
        (
            {"a": linear(np.ones((4, 2))), "b": linear(np.ones((2, 2)))},
            {"rule": "pipeline", "connect": [{"x": "z"}]},
            r"output 'z' of 'a' not found",
        ),
    ],
)
def test_models_that_do_not_fit_the_rule_are_refused(parts, rule, problem):
    with pytest.raises(InputError, match=problem):
        combine(parts, Combination(**rule))


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("inline", [2**30, 0])
def test_the_ensemble_of_a_bundle_shares_external_data_with_its_models(tmp_path, external, inline):
    wide = RNG.normal(size=(64, 32))
    parts = {"a": linear(wide), "b": linear(wide * 2)}
    rule = Combination(rule="mean")

    def fill(new):
        entries = [entry(new, name, model, external=external) for name, model in parts.items()]
        ensemble = write_ensemble(new, entries, rule, inline=inline)
        return Manifest(name="t", models=entries, combination=rule, ensemble=ensemble, made_by="tests")

    made = write_bundle(tmp_path / "b", fill)
    made.verify()
    data = {file.path for file in made.manifest.ensemble.data}
    if external:
        assert data == {"models/a/weights.data", "models/b/weights.data"}
    else:
        assert data == (set() if inline else {"ensemble.data"})
    session = onnxruntime.InferenceSession(tmp_path / "b/ensemble.onnx", providers=["CPUExecutionProvider"])
    x = RNG.normal(size=(5, 64)).astype(np.float32)
    np.testing.assert_allclose(
        session.run(None, {"x": x})[0], x @ (wide * 1.5).astype(np.float32), rtol=1e-3, atol=1e-4
    )


def test_a_bundle_without_an_ensemble_graph_is_valid(tmp_path):
    bundle(tmp_path / "b", models()).verify()
