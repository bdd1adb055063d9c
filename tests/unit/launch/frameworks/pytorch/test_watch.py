"""What a module holds beside its weights is seen to change, before a copy is used that was made from it."""

import logging
import threading
from types import SimpleNamespace

import pytest

from modak_deploy.launch.frameworks import openvino_cpu
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import outputs
from modak_deploy.launch.frameworks.pytorch.graphs import _busy_thread
from modak_deploy.launch.frameworks.pytorch.onnxruntime import _silent
from modak_deploy.launch.frameworks.pytorch.watch import Weights
from modak_deploy.launch.progress import Progress


@pytest.fixture(scope="module")
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.config = SimpleNamespace(scale=1.0, names=["a"])
            self.options = {"deep": {"scale": 2.0}}
            self.skipped = []
            self.alpha = torch.ones(1)
            self.short_of_memory = [0]

        def forward(self, values):
            if self.short_of_memory[0]:
                self.short_of_memory[0] -= 1
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return self.layer(values) * self.config.scale

    return lambda: Net().eval()


def config(net):
    net.config.scale = 3.0


def names(net):
    net.config.names.append("b")


def option(net):
    net.options["deep"]["scale"] = 3.0


def empty_list(net):
    net.skipped.append(1)


def plain_tensor(net):
    net.alpha.fill_(3.0)


@pytest.mark.parametrize("change", [config, names, option, empty_list, plain_tensor])
def test_what_hangs_on_a_module_is_seen_to_change(torch, net, change):
    module = net()
    weights = Weights(torch, module)
    assert weights.unchanged()
    change(module)
    assert not weights.unchanged()


def test_what_is_set_to_the_same_value_has_not_changed(torch, net):
    module = net()
    weights = Weights(torch, module)
    module.config.scale = float("1.0")
    assert weights.unchanged()
    module.config.scale = 4.0
    assert not weights.unchanged()


def test_a_changed_configuration_reaches_the_next_call(torch, net, session_of):
    module = net()
    session = session_of(["pytorch-bf16-weights"], mode="none")
    calls_module.Calls(session, torch, module)
    values = torch.ones(2, 4)
    with torch.inference_mode():
        before = [module(values) for _ in range(6)][-1]
        module.config.scale = 3.0
        after = module(values)
    torch.testing.assert_close(after, 3 * before, rtol=0.05, atol=0.05)
    assert session.record.of("weights_changed")


def test_where_memory_is_short_the_program_goes_on_without_what_lies_beside_it(torch, net, session_of):
    module = net()
    session = session_of(candidates=["pytorch-bf16-weights"], numerics="relaxed", units=4000)
    calls = calls_module.Calls(session, torch, module)
    values = torch.ones(2, 4)
    with torch.inference_mode():
        while calls.inference is None or not calls.inference._runners:
            wanted = module(values)
        module.short_of_memory[0] = 1
        result = calls.inference._own(module._call_impl, (values,), {})
    torch.testing.assert_close(result, wanted, rtol=0.05, atol=0.05)
    assert calls.inference.over
    assert session.record.of("no_trials")[-1]["reason"] == "the program has no memory left beside it"
    module.short_of_memory[0] = 1
    with torch.inference_mode(), pytest.raises(torch.cuda.OutOfMemoryError):
        module(values)


def test_what_other_threads_log_is_logged(monkeypatch):
    seen = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: seen.append(record.getMessage()))
    monkeypatch.setattr(logging.root, "handlers", [])

    def work():
        logging.basicConfig(handlers=[handler], force=True)
        logging.warning("another thread's")

    with openvino_cpu.silent():
        with openvino_cpu.silent():
            logging.warning("own")
        logging.warning("own")
        assert logging.root.handlers == []
        other = threading.Thread(target=work)
        other.start()
        other.join()
    logging.warning("later")
    assert seen == ["another thread's", "later"]
    assert logging.Logger.handle.__module__ == logging.basicConfig.__module__ == "logging"


def test_only_the_threads_own_output_is_silenced(capsys):
    with _silent():
        print("own")
        other = threading.Thread(target=print, args=("another",))
        other.start()
        other.join()
    print("after")
    assert capsys.readouterr().out.split() == ["another", "after"]


def test_threads_of_the_program_keep_a_call_from_being_recorded():
    assert _busy_thread() is None
    ends = threading.Event()
    thread = threading.Thread(target=lambda: ends.wait(10), name="of the program")
    thread.start()
    try:
        assert _busy_thread() == "of the program"
    finally:
        ends.set()
        thread.join()


def test_a_module_on_the_processor_has_no_number_format_of_its_own(torch, net):
    assert outputs.own_format(torch, net()) == ""


def test_work_that_is_not_waited_for_is_in_the_pauses():
    progress = Progress("inference: Net", "call", 0.0, 200)
    progress.asynchronous = True
    for number in range(100):
        progress.add(1.0 + number * 0.01, 0.001)
    state = progress.state()
    assert state["steady"] == pytest.approx(0.01)
    assert state["compile"] == 0.0
    assert state["left"] == pytest.approx(1.0)
    for number in range(10):  # units that are tried are waited for, and the pause is the program's own
        progress.add(2.0 + number * 0.007, 0.006)
    progress.pace = lambda: 0.005
    assert progress.left() == pytest.approx(90 * (0.005 + 0.001))
