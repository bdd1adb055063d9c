"""Arguments as other software takes them: the memory stays the program's, and numbers of rows are a table's."""

import importlib.util

import pytest

from modak_deploy.launch.frameworks.pytorch.arrays import array_of
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.frameworks.pytorch.openvino import Converted

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
ONNX = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("onnxruntime", "onnxscript"))),
    reason="ONNX Runtime and onnxscript are not installed; 'pip install .[onnx,convert]' installs them",
)
ENGINES = pytest.mark.parametrize(
    "engine",
    [pytest.param(lambda torch, model: Converted(torch, model, "f32"), id="openvino"),
     pytest.param(InSession, id="onnxruntime", marks=ONNX)],
)  # fmt: skip


@pytest.fixture
def words(torch):
    """Return a module that looks words up in one table and their kinds in another."""

    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.kinds = torch.nn.Embedding(10, 4), torch.nn.Embedding(3, 4)

        def forward(self, numbers):
            return self.words(numbers[:, :-1]) + self.kinds(numbers[:, -1:])

    torch.manual_seed(0)
    return Words().eval()


@ENGINES
@pytest.mark.parametrize("numbers", [[[1, 9, 3]], [[1, 2, -1]], [[10, 1, 2]], [[-1, 1, 2]]])
def test_numbers_of_rows_that_a_table_has_not_are_refused(torch, words, engine, numbers):
    converted, other = engine(torch, words), torch.tensor(numbers)
    with torch.no_grad():
        for given in (torch.tensor([[9, 0, 2]]), torch.tensor([[9], [0], [2]]).t()):
            assert torch.allclose(converted(given), words(given))
        for call in (words, converted):
            with pytest.raises(IndexError):
                call(other)


@ENGINES
def test_arguments_can_be_resized_afterwards(torch, words, engine):
    converted, given = engine(torch, words), torch.tensor([[9, 0, 2]])
    with torch.no_grad():
        converted(given)
    assert given.resize_(4, 3).shape == (4, 3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_an_array_is_the_memory_of_a_tensor(torch, dtype):
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    array = array_of(tensor)
    assert array.dtype == dtype and array.tolist() == tensor.tolist()
    tensor.zero_()
    assert not array.any()
    assert array_of(tensor[:0]).shape == (0, 3)


@ENGINES
@pytest.mark.parametrize("real", [False, True])
def test_attention_that_is_masked_as_a_whole_is_pytorchs(torch, engine, real):
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(8, 8)

        def forward(self, values, mask):
            values = self.head(values)
            mask = torch.zeros(4, 4).masked_fill(~mask, float("-inf")) if real else mask
            return torch.nn.functional.scaled_dot_product_attention(values, values, values, attn_mask=mask)

    model, values, mask = Attention().eval(), torch.randn(1, 1, 4, 8), torch.ones(4, 4, dtype=torch.bool).tril()
    converted, none = engine(torch, model), mask.clone()
    none[0] = False
    with torch.no_grad():
        assert torch.allclose(converted(values, mask), model(values, mask), atol=1e-5)
        with pytest.raises(ArithmeticError, match="hides all"):
            converted(values, none)


def test_infinite_results_are_results(torch):
    class Masked(torch.nn.Linear):
        def forward(self, values):
            return super().forward(values).cumsum(1).masked_fill(values > 0, float("inf")) * torch.tensor([1.0, -1.0])

    model, values = Masked(2, 2).eval(), torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    with torch.no_grad():
        assert torch.equal(torch.isinf(Converted(torch, model, "f32")(values)), torch.isinf(model(values)))
