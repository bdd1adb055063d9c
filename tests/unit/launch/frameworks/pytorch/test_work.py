"""What a call of a module consists of, counted on real PyTorch against sums made by hand."""

from types import SimpleNamespace

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.work import Work, _recurrent_layers


@pytest.fixture
def counted(torch):
    """Return the function that calls a module twice, as a program does, and returns its results and what was seen."""

    def count(module, *inputs, training=False, inference=True):
        work, seen, results = Work(torch, training), {}, []
        work.into(seen)
        with torch.inference_mode(inference):
            for _ in range(3):
                results.append(work.observing(module)(*inputs))
        return seen, results

    return count


@pytest.mark.parametrize("inference", [True, False])
def test_convolutions_and_products(torch, counted, inference):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, images):
            return self.head(torch.relu(self.conv(images)).mean((2, 3)))

    seen, results = counted(Net().eval(), torch.randn(16, 3, 10, 10), inference=inference)
    convolution, dense = 2 * 16 * 8 * 8 * 8 * 27, 2 * 16 * 8 * 4
    assert seen["flops"] == convolution + dense
    assert seen["flops_per_sample"] == (convolution + dense) / 16
    assert (seen["batch"], seen["layers"]) == (16, 2) and "sequence" not in seen
    assert seen["mix_convolution"] == pytest.approx(convolution / (convolution + dense))
    assert sum(value for name, value in seen.items() if name.startswith("mix_")) == pytest.approx(1)
    # What the convolution and the product read and write, in single precision.
    moved = 16 * 3 * 100 + 8 * 27 + 8 + 16 * 8 * 64 + 16 * 8 + 8 * 4 + 4 + 16 * 4
    assert seen["bytes_per_sample"] == pytest.approx(4 * moved / 16, rel=0.01)
    assert all(torch.equal(result, results[0]) for result in results)


def test_attention_on_the_processor(torch, counted):
    def attend(words):
        heads = words.view(2, 7, 4, 8).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)

    seen, _ = counted(attend, torch.randn(2, 7, 32))
    assert seen["flops"] == 2 * 2 * 4 * 7 * 7 * (8 + 8)
    assert seen["mix_attention"] == 1 and (seen["batch"], seen["sequence"]) == (2, 7)


@pytest.mark.parametrize("kind", ["encoder", "attention"])
def test_layers_in_one_kernel_count_as_those_that_are_done_one_by_one(torch, counted, kind):
    """A kernel of its own does them where nothing is learned."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    call = layer if kind == "encoder" else lambda rows: layer.self_attn(rows, rows, rows, need_weights=False)[0]
    rows, before = torch.randn(2, 7, 32), torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        apart, _ = counted(call, rows)
        torch.backends.mha.set_fastpath_enabled(True)
        together, _ = counted(call, rows)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert {**together, "bytes_per_sample": 0} == {**apart, "bytes_per_sample": 0}
    assert together["flops"] > 2 * 2 * 7 * 4 * 32 * 32 and together["layers"] == (5 if kind == "encoder" else 3)


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(torch, counted, kind, gates, inference):
    layer = getattr(torch.nn, kind)(5, 6, batch_first=True).eval()
    seen, results = counted(layer, torch.randn(3, 11, 5), inference=inference)
    assert seen["flops"] == 2 * 3 * 11 * gates * (6 * 5 + 6 * 6)
    assert (seen["batch"], seen["sequence"], seen["layers"], seen["mix_recurrent"]) == (3, 11, 1, 1)
    # In inference mode, layers without a kernel of their own go another way to the same one while they are looked at.
    assert torch.allclose(results[1][0], results[0][0], atol=1e-6)
    assert inference or torch.equal(results[1][0], results[0][0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_of_packed_sequences_and_both_directions(torch, counted, kind):
    gates = {"LSTM": 4, "GRU": 3}[kind]
    layer = getattr(torch.nn, kind)(5, 6, num_layers=2, bidirectional=True).eval()
    head = torch.nn.Linear(12, 2)

    def call(rows):
        packed = torch.nn.utils.rnn.pack_padded_sequence(rows, torch.tensor([7, 4]))
        return head(layer(packed)[0].data)

    before = dict(vars(torch._VF))
    seen, results = counted(call, torch.randn(7, 2, 5))
    cells = 2 * 11 * gates * (2 * (6 * 5 + 6 * 6) + 2 * (6 * 12 + 6 * 6))
    assert seen["flops"] == cells + 2 * 11 * 12 * 2 and seen["layers"] == 5
    assert all(torch.equal(result, results[0]) for result in results) and vars(torch._VF) == before


def test_a_recurrent_layer_that_learns_counts_three_times(torch, counted):
    layer = torch.nn.GRU(5, 6)
    seen, results = counted(layer, torch.randn(3, 11, 5), training=True, inference=False)
    assert seen["flops"] == 3 * 2 * 3 * 11 * 3 * (6 * 5 + 6 * 6) and seen["layers"] == 1
    results[1][0].sum().backward()
    assert layer.weight_hh_l0.grad is not None


def test_words_are_sequences_and_training_counts_three_times(torch, counted):
    table = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 2))
    seen, results = counted(table, torch.randint(0, 10, (3, 5)), training=True, inference=False)
    assert seen["flops"] == 3 * 2 * 15 * 4 * 2 and (seen["batch"], seen["sequence"]) == (3, 5)
    results[1].sum().backward()
    assert table[1].weight.grad is not None


def test_a_call_without_tensors_and_a_failing_one(torch, counted):
    seen, _ = counted(lambda: 5)
    assert seen == {}

    def fails(images):
        raise KeyError("its own")

    work = Work(torch, False)
    for _ in range(2):
        with pytest.raises(KeyError, match="its own"):
            work.observing(fails)(torch.ones(2))


def test_a_formula_that_does_not_fit_is_left_out(torch, counted, monkeypatch):
    from torch.utils import flop_counter

    def unfit(*args, **kwargs):
        raise ValueError("not this shape")

    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.addmm, unfit)
    seen, results = counted(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3))
    assert "flops" not in seen and seen["batch"] == 4 and len(results) == 3


def test_what_is_seen_reaches_the_counter(torch, session_of):
    session = session_of(mode="none")
    net = torch.nn.Linear(3, 2).eval()
    calls_module.Calls(session, torch, net)
    with torch.inference_mode():
        for _ in range(4):
            net(torch.ones(5, 3))
    session.counters.write()
    features = session.record.states["inference: Linear"]["features"]
    assert (features["parameters"], features["batch"], features["flops"]) == (8, 5, 2 * 5 * 3 * 2)


@pytest.mark.parametrize(
    ("kind", "guide"),
    [("weights", True), ("arguments", True), ("number", False), ("mask", False), ("elsewhere", False)],
)
def test_a_call_that_goes_by_values_is_no_guide(torch, kind, guide):
    net, elsewhere = torch.nn.Linear(3, 3), torch.ones(3)
    forwards = {
        "weights": lambda x: torch.arange(3) + net(x),
        "arguments": lambda x: x.reshape(x.shape[0], -1) * 2,
        "number": lambda x: x * 2 if x.sum() > 0 else x,
        "mask": lambda x: x[x > 0].sum() + x,
        "elsewhere": lambda x: x * elsewhere,
    }
    work = Work(torch, False, weights=net.parameters)
    with torch.inference_mode():
        assert work.guide is None
        for _ in range(2):
            work.observing(forwards[kind])(torch.ones(2, 3))
    assert work.guide is guide


def test_what_is_looked_at_takes_the_kernels_that_it_takes_otherwise(torch):
    """A mode that looks at methods would keep a layer of a transformer from its own kernel, and change last digits."""
    torch.manual_seed(0)
    layer, words = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 5, 32)
    work = Work(torch, False, weights=layer.parameters)
    with torch.inference_mode():
        results = [work.observing(layer)(words) for _ in range(3)]
    assert work.guide is True
    assert all(torch.equal(result, results[0]) for result in results)


FORWARDS = {
    "nested": lambda torch, net, x: net(torch.nested.nested_tensor([x[:1], x], layout=torch.jagged)).values(),
    "masked": lambda torch, net, x: torch.masked.masked_tensor(x, x > 0).sum(1).get_data(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", FORWARDS)
def test_tensors_of_other_kinds_are_left_to_themselves(torch, session_of, kind):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, x):
            return FORWARDS[kind](torch, self.inner, x)

    net, x = Net().eval(), torch.ones(2, 3)
    with torch.inference_mode():
        (plain,) = [net(x)]
        calls_module.Calls(session_of(mode="none"), torch, net)
        assert all(torch.equal(net(x), plain) for _ in range(4))


@pytest.mark.parametrize("name", ["buffers", "parameters"])
@pytest.mark.parametrize("options", [{"mode": "none"}, {"candidates": ["pytorch-channels-last"], "units": 100}])
def test_a_module_may_have_attributes_that_are_named_like_methods_of_pytorchs(torch, session_of, name, options):
    net, x = torch.nn.Linear(3, 2).eval(), torch.ones(5, 3)
    setattr(net, name, [])
    session = session_of(**options)
    calls_module.Calls(session, torch, net)
    with torch.inference_mode():
        results = [net(x) for _ in range(4)]
    assert all(torch.equal(result, results[0]) for result in results)
    session.counters.write()
    assert session.record.states["inference: Linear"]["features"]["parameters"] == 8


def test_recurrent_functions_are_replaced_for_one_call_at_a_time(torch):
    """Of two that end crosswise, as in two threads, the later one would leave what it has found for ever."""
    first, second = (SimpleNamespace(within=False, incomplete=False) for _ in range(2))
    one, other = (_recurrent_layers(torch, mode) for mode in (first, second))
    before = dict(vars(torch._VF))
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert vars(torch._VF) == before
    assert (first.incomplete, second.incomplete) == (False, True)
    with _recurrent_layers(torch, first):
        assert torch._VF.lstm is not before.get("lstm")
