"""Requests joined into one call: each gets its own answer, whatever the others do."""

import asyncio
import threading

import numpy as np
import pytest
from onnx import helper, numpy_helper

from modak_deploy.errors import InputError
from modak_deploy.onnx.batching import Batcher, OverloadedError, samples_are_independent
from modak_deploy.onnx.runner import Runner
from onnxparts import bundle, linear


def rows(*values):
    return {"x": np.array(values, np.float32).reshape(len(values), 1)}


class Model:
    """Doubles its input; fails for a negative number, and waits until it may go on."""

    def __init__(self):
        self.calls = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, inputs):
        assert self.go.wait(30)
        self.calls.append(len(inputs["x"]))
        if (inputs["x"] < 0).any():
            raise InputError("negative")
        return {"y": inputs["x"] * 2}


def together(model, *requests, **options):
    """Submit requests at once while a first call runs; return their answers or errors."""

    async def main():
        batcher = Batcher(model, **options)
        model.go.clear()
        first = asyncio.create_task(batcher.submit(rows(1), 1))
        await asyncio.sleep(0.01)
        tasks = [asyncio.create_task(batcher.submit(request, len(request["x"]))) for request in requests]
        await asyncio.sleep(0.01)
        model.go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await first
        await batcher.close()
        return answers

    return asyncio.run(main())


def test_what_waits_goes_into_one_call():
    model = Model()
    answers = together(model, rows(1), rows(2, 3), rows(4))
    assert [answer["y"].ravel().tolist() for answer in answers] == [[2], [4, 6], [8]]
    assert model.calls == [1, 4]


def test_a_call_has_at_most_so_many_samples():
    model = Model()
    together(model, rows(1), rows(2, 3), rows(4), largest=2)
    assert model.calls == [1, 2, 2]


def test_a_larger_request_is_a_call_of_its_own():
    model = Model()
    assert together(model, rows(*range(9)), largest=2)[0]["y"].size == 9


def test_one_failure_is_not_that_of_the_others():
    model = Model()
    answers = together(model, rows(1), rows(-1), rows(3))
    assert isinstance(answers[1], InputError)
    assert [answers[at]["y"].item() for at in (0, 2)] == [2, 6]


def test_other_shapes_are_calls_of_their_own():
    model = Model()
    wide = {"x": np.ones((1, 2), np.float32)}
    answers = together(model, rows(1), wide, rows(3))
    assert [answer["y"].shape for answer in answers] == [(1, 1), (1, 2), (1, 1)]
    assert model.calls == [1, 2, 1]


def test_a_client_that_goes_away_changes_nothing():
    async def main():
        model = Model()
        batcher = Batcher(model)
        model.go.clear()
        tasks = [asyncio.create_task(batcher.submit(rows(value), 1)) for value in (1, 2, 3, 4)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()  # in the call that runs
        tasks[2].cancel()  # waits
        model.go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return [answers[at]["y"].item() for at in (1, 3)]

    assert asyncio.run(main()) == [4, 8]


def test_a_full_queue_refuses():
    answers = together(Model(), rows(1), rows(2), rows(3), longest_queue=2)
    assert [isinstance(answer, OverloadedError) for answer in answers] == [False, False, True]


def test_the_end_answers_what_waits():
    async def main():
        batcher = Batcher(Model())
        tasks = [asyncio.create_task(batcher.submit(rows(value), 1)) for value in range(5)]
        await asyncio.sleep(0)
        await batcher.close()
        return [(await task)["y"].item() for task in tasks]

    assert asyncio.run(main()) == [0, 2, 4, 6, 8]


def centred(scale):
    """Return a model that gives ``scale * x`` less the mean of all samples."""
    model = linear(np.eye(2) * scale)
    graph = model.graph
    graph.node[-1].output[0] = "all"
    graph.node.append(helper.make_node("ReduceMean", ["all", "axes"], ["mean"], keepdims=1))
    graph.node.append(helper.make_node("Sub", ["all", "mean"], ["y"]))
    graph.initializer.append(numpy_helper.from_array(np.array([0]), "axes"))
    return model


def test_a_model_that_mixes_its_samples_is_not_batched(tmp_path):
    independent = linear([[1, 2], [3, 4]], softmax=True)
    mixing = linear([[1, 2], [3, 4]], softmax=True)
    del mixing.graph.node[-1].attribute[:]
    mixing.graph.node[-1].attribute.append(helper.make_attribute("axis", 0))
    fixed = linear([[1, 2], [3, 4]], batch=1)
    expected = {
        "independent": (independent, True),
        "mixing": (mixing, False),
        "small": (centred(1e-4), False),
        "fixed": (fixed, False),
    }
    for name, (model, answer) in expected.items():
        assert samples_are_independent(Runner(bundle(tmp_path / name, {"m": model}))) is answer


@pytest.mark.parametrize("wait", [0.0, 0.01])
def test_waiting_for_more(wait):
    async def main():
        batcher = Batcher(Model(), wait=wait)
        return (await batcher.submit(rows(5), 1))["y"].item()

    assert asyncio.run(main()) == 10
