"""A module for tests of what does modules by other software, and the time that its calls take."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class Clock:
    """Goes on by a second with each call of the module itself, by a quarter with one of the other software."""

    now = 0.0

    @classmethod
    def spend(cls) -> None:
        """Go on by a second; a forward that did so itself would be seen to change what its code names."""
        cls.now += 1.0


def module_maker(torch: Any) -> Callable[..., Any]:
    """Return what makes the module; its kind says what is special about its calls."""

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.head = torch.nn.Linear(8, 4)
            self.kind = kind

        def forward(self, images: Any, scale: float = 1.0, mask: Any = None) -> Any:
            Clock.spend()
            hidden = torch.relu(self.conv(images)).mean((2, 3))
            scores = self.head(hidden) * scale
            if mask is not None:
                scores = scores.masked_fill(mask, 0.0)
            if self.kind == "branch" and scores.sum() > 1e6:
                return scores * 0
            if self.kind == "mapping":
                return OrderedDict(scores=scores, pair=(hidden, None), name="net", kinds=scores.argmax(1))
            if self.kind == "into its argument":
                images.mul_(2)
            formats = {"double": torch.float64, "bf16": torch.bfloat16}
            return scores.to(formats.get(self.kind, scores.dtype))

    def make(kind: str = "tensor") -> Any:
        torch.manual_seed(0)
        return Net(kind).eval()

    return make
