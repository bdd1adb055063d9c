"""Modules whose calls the launcher follows are what the program made of them, whatever it does with them."""

import copy
import gc
import io
import weakref

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import interception

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@pytest.fixture
def followed(torch, session_of):
    """Return a function that makes a module in evaluation mode whose calls are counted, and says how many were."""

    def make(module_class=torch.nn.Linear):
        session = session_of(mode="none")
        module = module_class(4, 4).eval()
        calls_module.Calls(session, torch, module)
        return module, lambda: session.evaluations

    return make


@pytest.fixture
def keeps_a_cache(torch):
    class Module(torch.nn.Linear):
        def __getstate__(self):
            state = self.__dict__.copy()
            state["cache"] = None
            return state

    return Module


def test_calls_are_counted_and_attributes_are_the_programs_own(torch, followed):
    module, counted = followed()
    attributes = set(vars(torch.nn.Linear(4, 4)))
    module(torch.ones(1, 4))
    assert counted() == 1
    assert set(vars(module)) == attributes


def test_module_is_scripted_and_traced(torch, followed):
    module, counted = followed()
    images = torch.ones(2, 4)
    right = module(images)
    assert torch.equal(torch.jit.script(module)(images), right)
    assert torch.equal(torch.jit.trace(module, images)(images), right)
    assert counted() >= 1


@pytest.mark.parametrize("how", [copy.deepcopy, copy.copy, "saved"])
@pytest.mark.parametrize("kind", ["its own state", "graph"])
def test_module_that_says_what_it_consists_of_is_copied_and_saved(
    torch, session_of, followed, keeps_a_cache, kind, how
):
    images = torch.ones(2, 4)
    module, counted = followed(keeps_a_cache)
    if kind == "graph":
        module = torch.fx.symbolic_trace(torch.nn.Sequential(module))
        calls_module.Calls(session_of(mode="none"), torch, module)
    right = module(images)
    if how == "saved":
        if kind == "its own state":
            pytest.skip("a class within a function cannot be pickled, with the launcher or without")
        torch.save(module, buffer := io.BytesIO())
        assert b"modak" not in buffer.getvalue()
    else:
        before = counted()
        assert torch.equal(how(module)(images), right)
        assert counted() == before or kind == "graph"


def test_clone_with_the_same_attributes_is_a_module_of_its_own(torch, followed):
    """As libraries of meta-learning make theirs."""
    module, counted = followed()
    clone = module.__new__(type(module))
    vars(clone).update(vars(module))
    clone._parameters = {name: torch.nn.Parameter(weight.detach() + 1) for name, weight in module._parameters.items()}
    images = torch.ones(2, 4)
    with torch.inference_mode():
        assert not torch.equal(clone(images), module(images))
    assert counted() == 1


@pytest.mark.parametrize("strict", [False, True])
def test_module_with_hooks_is_compiled_and_exported(torch, followed, strict):
    module, _ = followed()
    module.register_forward_hook(lambda module, args, result: result + 1)
    images = torch.ones(2, 4)
    right = module(images)
    assert torch.equal(torch.export.export(module, (images,), strict=strict).module()(images), right)
    assert torch.equal(torch.compile(module, backend="eager", fullgraph=True)(images), right)


def test_what_the_program_compiles_is_called_in_place_of_the_launcher(torch, followed):
    module, counted = followed()
    module.compile(backend="eager")
    module(torch.ones(2, 4))
    assert counted() == 0
    del module._compiled_call_impl
    module(torch.ones(2, 4))
    assert counted() == 1


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("mode", ["none", "live"])
def test_of_short_calls_few_are_looked_at_and_all_are_counted(torch, session_of, monkeypatch, mode, grad):
    session = session_of(mode=mode, candidates=[])
    inner = torch.nn.Linear(4, 4).eval()
    module = torch.nn.Sequential(inner).eval()
    looked, add = [], calls_module.Calls._add
    monkeypatch.setattr(calls_module.Calls, "_add", lambda *args: (looked.append(1), add(*args)))
    for followed in (inner, module):
        calls_module.Calls(session, torch, followed)
    with torch.set_grad_enabled(grad):
        results = [module(torch.ones(1, 4)) for _ in range(500)]
    session.counters.write()
    assert len(looked) < 400
    assert session.record.states["inference: Sequential"]["units"] == 500
    assert set(session.record.states) == {"inference: Sequential", "process"}
    assert all(torch.equal(one, results[0]) and one.requires_grad == grad for one in results)


@pytest.mark.parametrize("fails", [False, True])
def test_threads_between_calls_are_the_programs_own(torch, session_of, monkeypatch, fails):
    class Net(torch.nn.Linear):
        def forward(self, images):
            if images[0, 0] < 0:
                raise ValueError("the program's own")
            return super().forward(images)

    def counted(*args):
        seen.append(torch.get_num_threads())
        return linear(*args)

    linear, seen = torch.nn.functional.linear, []
    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    module = Net(4, 4).eval()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        calls_module.Calls(session_of(["pytorch-one-thread"], mode="none"), torch, module)
        with torch.inference_mode():
            for _ in range(20):
                module(torch.ones(2, 4))
                assert torch.get_num_threads() == 2
            if fails:
                with pytest.raises(ValueError, match="the program's own"):
                    module(-torch.ones(2, 4))
                assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen[0] == 2
    assert seen[-1] == 1


def test_nothing_is_left_of_modules_that_are_gone(torch, followed):
    gc.collect()
    before = len(interception._TABLE)
    module, _ = followed()
    module(torch.ones(2, 4))
    gone = weakref.ref(module)
    assert len(interception._TABLE) == before + 1
    del module
    gc.collect()
    assert gone() is None
    assert len(interception._TABLE) == before


def test_module_is_left_to_itself_by_what_followed_it_alone(torch, session_of, followed):
    module, _ = followed()
    first = module._compiled_call_impl
    second = calls_module.Calls(session_of(mode="none"), torch, module)
    first.remove("the test wants it")
    assert module._compiled_call_impl is second
    second.remove("the test wants it")
    assert module._compiled_call_impl is None
