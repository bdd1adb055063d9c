"""What stands in the place of a Keras model's function for predict looks for memory before it copies anything."""

from types import SimpleNamespace

import pytest

from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks.keras.functions import BatchFunction
from modak_deploy.launch.frameworks.keras.kinds import PREDICT, Subject

numpy = pytest.importorskip("numpy")


class Variable:
    """One of Keras's, whose value is one of TensorFlow's."""

    def __init__(self):
        self.array = numpy.zeros(1 << 18, dtype=numpy.float32)
        self.read = 0
        self.shape = SimpleNamespace(num_elements=lambda: self.array.size)
        self.dtype = SimpleNamespace(size=4)
        self.value = self

    def numpy(self):
        self.read += 1
        return self.array


@pytest.mark.parametrize(
    ("free", "changes", "reason"),
    [
        (1 << 20, False, "a copy takes 1 MiB and 1 MiB are free"),
        (1 << 30, True, "the model changes its state"),
        (1 << 30, False, None),
        (None, False, None),
    ],
)
def test_what_is_not_trained_is_copied_where_there_is_memory(session_of, monkeypatch, free, changes, reason):
    monkeypatch.setattr(hardware, "free_memory", lambda: free)
    session, variable = session_of(), Variable()

    def predict(data):
        variable.array[3] += changes
        return data

    nest = SimpleNamespace(flatten=lambda data: data, map_structure=lambda function, data: [*map(function, data)])
    tensorflow, model = SimpleNamespace(nest=nest), SimpleNamespace(non_trainable_variables=[variable])
    function = BatchFunction(session, Subject(SimpleNamespace(), tensorflow, model, PREDICT), predict, None)
    data = [numpy.ones(3)]
    monkeypatch.setattr("modak_deploy.launch.frameworks.keras.functions.signature", lambda *_: 1)
    assert function(data) is data
    assert [entry["reason"] for entry in session.record.of("no_trials")] == ([reason] if reason else [])
    assert bool(variable.read) is (free != 1 << 20)
