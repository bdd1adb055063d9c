"""What kept conversions of a module are told apart by."""

import copy
import dataclasses
import functools
import re
from typing import Any

import pytest

from modak_deploy.launch import structures
from modak_deploy.launch.frameworks.pytorch import identity, replica
from modak_deploy.launch.frameworks.pytorch.identity import Identity


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    names: tuple = ("a", "b")
    parent: Any = None


def double(value):
    return value * 2


@pytest.fixture
def make(torch):
    class Net(torch.nn.Module):  # type: ignore[misc]
        kind = "plain"

        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)
            self.settings = Settings()
            self.settings.parent = self.settings  # as some configurations have it
            self.function = functools.partial(double)
            self.others = [torch.nn.Linear(2, 2)]
            self.table = torch.arange(4)
            self.flags = {"a", "b"}

        def forward(self, images: Any) -> Any:
            return self.norm(self.conv(images)) * self.settings.scale

    def new(seed: int = 0) -> Any:
        torch.manual_seed(seed)
        return Net().eval()

    return new


def name(torch, module, kind=("onnx", "1"), form="(1, 3, 8, 8)", program="of today"):
    return Identity(torch, module, program).name(kind, form)


def test_same_module_has_the_same_name(torch, make):
    first = name(torch, make())
    assert re.fullmatch("[0-9a-f]{32}-[0-9a-f]{40}", first)
    assert name(torch, make()) == first
    module = make()
    module._compiled_call_impl = print  # the launcher's own, by which it counts
    assert name(torch, module) == first
    assert name(torch, replica.make(torch, module, lambda weight: weight)) == first


def weight(torch, module):
    module.conv.weight.detach()[0, 0, 0, 0] += 1e-7


def buffer(torch, module):
    module.norm.running_mean[0] += 1e-3


def epsilon(torch, module):
    module.norm.eps = 1e-6


def padding(torch, module):
    module.conv.padding = (1, 1)


def setting(torch, module):
    module.settings.scale = 3.0


def listed(torch, module):
    module.others[0].weight.detach()[0, 0] = 7


def plain_tensor(torch, module):
    module.table[0] = 9


def layer(torch, module):
    module.norm = torch.nn.Identity()


def number_format(torch, module):
    module.conv.double()


def mode(torch, module):
    module.norm.training = True


def own_forward(torch, module):
    module.forward = lambda images: images


def part_of_a_function(torch, module):
    module.function = functools.partial(double, 3)


def of_the_class(torch, module):
    type(module).kind = "fancy"


def code_of_the_class(torch, module):
    type(module).forward = lambda self, images: self.conv(images)


def shared(torch, module):
    module.again = module.conv


@pytest.mark.parametrize(
    ("change", "weights_alone"),
    [
        (weight, True), (buffer, True), (epsilon, False), (padding, False), (setting, False), (listed, False),
        (plain_tensor, False), (layer, False), (number_format, False), (mode, False), (own_forward, False),
        (part_of_a_function, False), (of_the_class, False), (code_of_the_class, False), (shared, False),
    ],
)  # fmt: skip
def test_what_matters_changes_the_name(torch, make, change, weights_alone):
    module = make()
    start, weights = name(torch, module).split("-")
    change(torch, module)
    changed = name(torch, module).split("-")
    assert changed != [start, weights]
    assert (changed[0] == start) == weights_alone


@pytest.mark.parametrize("other", [{"kind": ("onnx", "2")}, {"form": "(2, 3, 8, 8)"}, {"program": "of yesterday"}])
def test_versions_calls_and_programs_change_the_name(torch, make, other):
    assert name(torch, make(), **other) != name(torch, make())


def test_default_number_format_changes_the_name(torch, make):
    module = make()
    before = name(torch, module)
    torch.set_default_dtype(torch.float64)
    try:
        assert name(torch, module) != before
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("value", [memoryview(b"x"), re.finditer("a", "a"), copy], ids=["memory", "iterator", "module"])
def test_what_cannot_be_seen_is_refused(torch, make, value):
    module = make()
    module.something = value
    if value is copy:  # a module of Python's is its name
        assert name(torch, module)
        return
    with pytest.raises(structures.Unsupported, match="which cannot be seen"):
        name(torch, module)


@pytest.mark.parametrize("kind", ["bfloat16", "bool", "complex64", "int64", "float16"])
def test_weights_of_each_kind_are_read(torch, make, kind):
    module = make()
    module.register_buffer("more", torch.ones((), dtype=getattr(torch, kind)))
    module.register_buffer("empty", torch.ones(0, dtype=getattr(torch, kind)))
    before = name(torch, module)
    module.more.zero_()
    assert name(torch, module) != before


def test_programs_files_are_read_wherever_they_lie(tmp_path, monkeypatch):
    digests = []
    for folder, text in (("one", "A = 1"), ("two", "A = 1"), ("three", "A = 2")):
        own = tmp_path / folder
        own.mkdir()
        (own / "own_part_of_the_program.py").write_text(text)
        monkeypatch.syspath_prepend(str(own))
        monkeypatch.delitem(identity.sys.modules, "own_part_of_the_program", raising=False)
        __import__("own_part_of_the_program")
        identity.program_digest.cache_clear()
        digests.append(identity.program_digest())
    monkeypatch.delitem(identity.sys.modules, "own_part_of_the_program")
    identity.program_digest.cache_clear()
    assert digests[0] == digests[1] != digests[2]


OPTIONS = {"threshold": 1.0, "names": ["a"]}


@pytest.mark.parametrize(("key", "value"), [("threshold", 2.0), ("names", ["a", "b"])])
def test_what_the_code_reads_outside_of_the_module_is_part_of_the_name(torch, monkeypatch, key, value):
    class Net(torch.nn.Linear):
        def forward(self, images):
            images = super().forward(images)
            return images * (images > OPTIONS["threshold"]) * len(OPTIONS["names"])

    torch.manual_seed(0)
    module = Net(2, 2)
    before = name(torch, module)
    assert name(torch, module) == before
    monkeypatch.setitem(OPTIONS, key, value)
    assert name(torch, module) != before
