"""Models of ONNX that a session is given the module's weights for."""

from typing import Any

import pytest

from modak_deploy.launch.frameworks.pytorch import weightless
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.structures import Unsupported

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; 'pip install .[onnx]' installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; 'pip install .[convert]' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture
def words(torch: Any) -> Any:
    class Words(torch.nn.Module):
        """A network with tied weights, parameters and buffers of its own, and a recurrent layer."""

        def __init__(self, width: int = 64) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(500, width)
            self.places = torch.nn.Parameter(torch.randn(9, width))
            self.turns = torch.nn.LSTM(width, 16, num_layers=2, batch_first=True, bidirectional=True)
            self.norm = torch.nn.BatchNorm1d(9)
            self.wide = torch.nn.Linear(32, width)
            self.last = torch.nn.Linear(width, 500, bias=False)
            self.last.weight = self.table.weight
            self.register_buffer("kinds", torch.arange(9) % 3, persistent=False)
            self.register_buffer("unused", torch.zeros(1000, dtype=torch.bfloat16))

        def forward(self, numbers: Any) -> Any:
            hidden = self.table(numbers + self.kinds) + self.places
            hidden, _ = self.turns(hidden)
            return self.last(torch.tanh(self.wide(self.norm(hidden))))

    return lambda *args: Words(*args).eval().requires_grad_(False)


@pytest.fixture
def numbers(torch: Any) -> Any:
    return torch.arange(36).reshape(4, 9)


def test_what_is_written_has_no_weights_and_takes_those_of_the_module_that_reads_it(torch, words, numbers):
    model, other = words(), words()
    data = InSession(torch, model).content((numbers,), {})
    assert data.startswith(weightless.MARK)
    assert len(data) < 40_000 < 4 * sum(weight.numel() for weight in model.parameters())
    for module in (model, other):
        session = InSession(torch, module)
        results = session.read(data, [numbers], [module(numbers)])([numbers])
        assert torch.allclose(results[0], module(numbers), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(model(numbers), other(numbers), atol=0.1)


def test_a_module_with_other_weights_is_refused(torch, words, numbers):
    data = InSession(torch, words()).content((numbers,), {})
    for module, problem in ((words(32), "other weights"), (words().double(), "weights of other types")):
        with pytest.raises(Unsupported, match=problem):
            InSession(torch, module).read(data, [numbers], [numbers])


def test_weights_in_another_order_of_memory_and_of_any_size(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 3))
    model.eval().to(memory_format=torch.channels_last)
    model[3].weight = torch.nn.Parameter(torch.randn(288, 3).t())
    images = torch.randn(2, 3, 8, 8)
    session = InSession(torch, model)
    with torch.no_grad():
        assert torch.allclose(session(images), model(images), atol=1e-5)


def test_the_session_keeps_weights_of_its_own(torch, words, numbers):
    model = words()
    session = InSession(torch, model)
    before = session(numbers)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    assert torch.equal(session(numbers), before)
    model.table.weight.untyped_storage().resize_(0)  # the program may still do that
    assert torch.equal(session(numbers), before)


def test_tensors_that_are_no_weights_have_the_module_exported(torch, numbers):
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = [torch.randn(9, 9)]
            self.layer = torch.nn.Linear(9, 9)

        def forward(self, values: Any) -> Any:
            return self.layer(values.float() @ self.own[0])

    model = Net().eval()
    session = InSession(torch, model)
    with torch.no_grad():
        assert torch.allclose(session(numbers), model(numbers), rtol=1e-4, atol=1e-4)
        assert not session.content((numbers,), {}).startswith(weightless.MARK)
