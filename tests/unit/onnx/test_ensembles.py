"""The one graph of an ensemble against its models, on data that fit it."""

from pathlib import Path

import numpy as np
import pytest

from modak_deploy.onnx.arrays import Arrays
from modak_deploy.onnx.combine import write_ensemble
from modak_deploy.onnx.ensembles import validate_ensemble
from modak_deploy.onnx.manifest import Combination, Validation
from onnxparts import entry, linear

MEAN = Combination(rule="mean")


def validated(folder: Path, batch: int | str, samples: dict[str, Arrays]) -> Validation:
    entries = [entry(folder, name, linear([[1, 2], [3, weight]], batch=batch)) for name, weight in (("a", 4), ("b", 5))]
    graph = write_ensemble(folder, entries, MEAN)
    assert graph is not None
    return validate_ensemble(folder, graph, entries, MEAN, samples)


@pytest.mark.parametrize(("batch", "compared"), [("batch", 16), (20, 20)])
def test_a_fixed_batch_is_taken_whole(tmp_path: Path, batch: int | str, compared: int) -> None:
    x = np.random.default_rng(0).standard_normal((20, 2)).astype("float32")
    found = validated(tmp_path, batch, {"a": {"x": x}, "b": {"x": x}})
    assert (found.status, found.samples) == ("passed", compared)


def test_fewer_samples_than_a_fixed_batch_are_not_compared(tmp_path: Path) -> None:
    x = np.ones((5, 2), "float32")
    found = validated(tmp_path, 20, {"a": {"x": x}, "b": {"x": x}})
    assert found.status == "skipped"
