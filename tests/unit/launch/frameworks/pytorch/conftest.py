"""Fixtures for live trials on modules in evaluation mode; the time of a call is what the test says."""

import dataclasses
from collections import OrderedDict

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import inference
from module_parts import BF16, Clock


@pytest.fixture
def clock(monkeypatch):
    Clock.now = 0.0
    monkeypatch.setattr(inference.Inference, "now", lambda self, search: Clock.now)
    return Clock


@pytest.fixture(scope="module")
def models(torch):
    """Return modules in the style of users' programs."""
    nn = torch.nn

    @dataclasses.dataclass
    class Scores:
        scores: object
        hidden: object = None

    class ModelOutput(OrderedDict):
        """As the outputs of Hugging Face's models."""

    class Net(nn.Module):
        def __init__(self, kind="tensor"):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.head = nn.Linear(8, 4)
            self.kind = kind
            self.cache = None
            self.shift = 0.0
            self.calls = 0

        def forward(self, images, scale=1.0, **more):
            Clock.spend(self.conv.weight.dtype)
            hidden = torch.relu(self.norm(self.conv(images)))
            scores = self.head(hidden.mean((2, 3))) * scale + self.shift
            return self.finish(images, hidden, scores)

        def finish(self, images, hidden, scores):
            if self.kind == "tuple":
                return scores, (hidden, None)
            if self.kind == "dataclass":
                return Scores(scores, hidden)
            if self.kind == "mapping":
                return ModelOutput(scores=scores, hidden=hidden)
            if self.kind == "counts":
                self.calls += 1
            if self.kind == "keeps a cache":
                self.cache = scores if self.cache is None else torch.cat([self.cache, scores])
            if self.kind == "random":
                return scores + torch.randn(4)
            if self.kind == "writes to its argument":
                images += 1
            if self.kind == "object":
                return object()
            if self.kind == "nan" and scores.dtype == torch.bfloat16:
                return scores * float("nan")
            if self.kind == "nan always":
                return scores * float("nan")
            if self.kind == "wrong" and scores.dtype == torch.bfloat16:
                return scores + 10
            if self.kind == "fails" and scores.dtype == torch.bfloat16:
                raise RuntimeError("not implemented for bf16")
            if self.kind == "other shape" and scores.dtype == torch.bfloat16:
                return scores[:, :2]
            return scores

    def make(kind="tensor"):
        torch.manual_seed(0)
        return Net(kind).eval()

    return make


@pytest.fixture
def follow(torch, session_of):
    """Return a module with its interception and its session."""

    def make(model, **options):
        options.setdefault("candidates", [BF16])
        session = session_of(numerics=options.pop("numerics", "relaxed"), **options)
        return session, calls_module.Calls(session, torch, model)

    return make
