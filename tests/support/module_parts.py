"""Modules of PyTorch whose calls take what the test says, for tests of live trials."""

from typing import Any, ClassVar

BF16 = "pytorch-bf16-weights"


class Clock:
    """Goes on as modules are called, more slowly in bf16."""

    now: ClassVar[float] = 0.0
    cost: ClassVar[dict[str, float]] = {"torch.float32": 1.0, "torch.bfloat16": 0.25}

    @classmethod
    def spend(cls, dtype: object) -> None:
        """Go on by a call; a forward that did so itself would be seen to change what its code names."""
        cls.now += cls.cost[str(dtype)]


def run(torch: Any, model: Any, calls: int = 40, **keywords: Any) -> list[Any]:
    torch.manual_seed(1)
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        return [model(images, **keywords) for _ in range(calls)]


def best(session: Any) -> str:
    settled = session.record.of("settled")
    return settled[-1]["variant"] if settled else "default"


def calls_of(model: Any) -> Any:
    return model._compiled_call_impl


def counting(torch: Any) -> Any:
    """Return a module that counts its calls, and so must not be called twice; of seven rows it raises an error."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = torch.nn.Linear(300, 300), 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            if x.shape[0] == 7:
                raise KeyError("the program's own")
            return self.layer(x)

    return Counting().eval()
