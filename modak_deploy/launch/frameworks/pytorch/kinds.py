"""What a lever of PyTorch can do; each lever overrides what it needs."""

import threading
from typing import AbstractSet, Any, Callable, ContextManager, Dict, List, Mapping, Optional, Tuple

from ...lever import Lever
from ...quiet import unwarned
from . import compiler
from .objects import held_by, modules_of

INFERENCE = "inference"
TRAINING = "training"
BOTH = "both"


def autocasts(torch: Any) -> bool:
    """Tell whether the program's call is within autocast; before 2.4, each kind of device was asked for by itself."""
    try:
        return any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))
    except TypeError:
        return bool(torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


class Subject:
    """The module, and the optimizer in training, that a lever is asked about."""

    def __init__(
        self,
        torch: Any,
        module: Optional[Any],
        optimizer: Optional[Any] = None,
        operations: AbstractSet[str] = frozenset(),
        guide: bool = False,
        differentiated: bool = False,
    ) -> None:
        self.torch = torch
        self.module = module
        self.optimizer = optimizer
        self.operations = operations
        """Names of what the gradients of a training step go through, as autograd has them; in inference of a call's
        operations, as they are dispatched to a device, where one was looked at."""
        self.guide = guide
        """Whether a call in evaluation is known to be a guide to others, so that the module can be traced."""
        self.differentiated = differentiated
        """Whether gradients of a training's steps are differentiated, or may be later."""
        self.modules = modules_of(module) if module is not None else []
        self.parameters = held_by(self.modules, "_parameters")
        self.device = self.parameters[0].device.type if self.parameters else "cpu"

    @property
    def float32(self) -> bool:
        """Tell whether all floating-point weights are single precision."""
        floats = [parameter.dtype for parameter in self.parameters if parameter.is_floating_point()]
        return bool(floats) and all(dtype == self.torch.float32 for dtype in floats)


class TorchLever(Lever):
    """A lever that is switched at the outermost module's call, at the optimizer, or for the whole process."""

    framework = "pytorch"
    versions = ">=2.2"
    live = True
    at_calls = True
    use = BOTH
    format = ""
    """Number format that it brings in; empty where it keeps the module's."""
    copies = False
    """Whether inference uses a copy of the module with converted weights."""
    unforked: Tuple[str, ...] = ()
    """Modules with threads of their own, which a fork lacks: once they are imported, no other process makes it ready.
    """

    def applies(self, subject: Subject) -> Optional[str]:
        """Return why it has no effect on a module or optimizer; None when it has."""
        return None

    def unsound(self, subject: Subject) -> Optional[str]:
        """Return why it needs a comparison of a call's results; None where it has shown by itself that it is right."""
        return "its results would have to be compared"

    def weight(self, torch: Any, tensor: Any) -> Any:
        """Return a weight of the copy."""
        return tensor

    def argument(self, torch: Any, tensor: Any) -> Any:
        """Return an argument of the outermost call."""
        return tensor

    def context(self, torch: Any, device: str) -> Optional[ContextManager[Any]]:
        """Return what the outermost call runs in."""
        return None

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        """Return a function that does what the copy of the module does."""
        return module  # type: ignore[no-any-return]

    def making(self, subject: Subject) -> float:
        """Return about how many seconds it takes to make it ready for inference, where it is expensive."""
        if subject.device == "cuda":  # ResNet50 12 to 14 s, BERT-base 9 to 12 s on an H100 with 16 cores (PyTorch 2.11)
            return compiler.loading() + 6.0 + 0.04 * len(subject.modules)
        return compiler.loading() + 5.0 + 0.15 * len(subject.modules)

    def content_kind(self, torch: Any) -> Optional[Tuple[str, ...]]:
        """Return what is made ready depends on beside the module and the call; None where later runs cannot read it.

        A lever that has such content makes an ``Exported`` of a module's copy.
        """
        return None

    def finishing(self, subject: Subject) -> float:
        """Return about how many seconds of it the program loses where it is made ready in the background, or was by
        an earlier run."""
        return self.making(subject)

    def switch_training(self, subject: Subject, on: bool) -> None:
        """Change the module or the optimizer in place, or change it back."""

    def step(self, torch: Any, on: bool) -> None:
        """Change what is on from the outermost call of a training step to its end, or change it back."""

    def optimizing(self, torch: Any, optimizer: Any, on: bool) -> None:
        """Change what is on while the optimizer changes the weights, and only then, or change it back."""

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: what is switched at a module's call is switched at its first call."""


class OptimizerOption(TorchLever):
    """An option of the optimizer's groups of weights, where the program leaves it open.

    It is on within the optimizer's step alone: what the program reads, saves or loads between steps is its own.
    """

    changes = "kernels"
    ranks = True
    group = "optimizer"
    use = TRAINING
    option = ""

    def __init__(self) -> None:
        self._groups: List[Dict[str, Any]] = []
        """Those in which it is on at the moment."""
        self._hook: Optional[Any] = None

    @staticmethod
    def is_open(group: Mapping[str, Any]) -> bool:
        """Tell whether the program leaves it to PyTorch how the optimizer steps."""
        return group.get("fused") is None and group.get("foreach") is None and not group.get("differentiable")

    def switch_training(self, subject: Subject, on: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        register = getattr(subject.optimizer, "register_state_dict_post_hook", None)
        if on and register is not None:
            self._hook = register(self.saved, prepend=True)  # those of the program may make something else of it

    def fits(self, torch: Any, optimizer: Any, group: Mapping[str, Any]) -> bool:
        """Tell whether PyTorch does the next step of a group in this way, and with the same result."""
        return True

    def optimizing(self, torch: Any, optimizer: Any, on: bool) -> None:
        if on:
            mine = [group for group in optimizer.param_groups if self.option in group and self.is_open(group)]
            self._groups += [group for group in mine if self.fits(torch, optimizer, group)]
        for group in self._groups:
            group[self.option] = True if on else None
        if not on:
            self._groups = []

    def saved(self, optimizer: Any, state: Dict[str, Any]) -> None:
        """Make what is saved the program's own: its hooks run within the step, and a step may end by an exception."""
        ours = [id(group) for group in self._groups]
        for group, entry in zip(optimizer.param_groups, state["param_groups"]):
            if id(group) in ours:
                entry[self.option] = None


class Setting(TorchLever):
    """A setting of the process that is on from the start or switched between units."""

    at_calls = False

    def __init__(self) -> None:
        self._before: Dict[str, Any] = {}
        self._users = 0
        """Objects of the program for which it is on."""
        self._lock = threading.RLock()  # the end of an optimizer switches it off, in the midst of anything

    def values(self, torch: Any) -> Dict[str, Any]:
        """Return the value that it sets, by the attribute's path below ``torch``."""
        raise NotImplementedError

    def applies(self, subject: Subject) -> Optional[str]:
        values = self.values(subject.torch)
        if all(_read(subject.torch, path) == value for path, value in values.items()):
            return "it is so already"
        return None

    def switch(self, torch: Any, on: bool) -> None:
        with self._lock:
            changes = self._users == (0 if on else 1)  # for the first to come, and the last to go
            self._users = max(0, self._users + (1 if on else -1))
            for path, value in self.values(torch).items() if changes else ():
                if on:
                    self._before[path] = _read(torch, path)
                _write(torch, path, value if on else self._before.pop(path, value))

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        self.switch(module, True)


def _read(torch: Any, path: str) -> Any:
    value = torch
    with unwarned():  # allow_tf32 has been replaced (2.9)
        for name in path.split("."):
            value = getattr(value, name)
    return value


def _write(torch: Any, path: str, value: Any) -> None:
    parent, _, name = path.rpartition(".")
    with unwarned():
        setattr(_read(torch, parent), name, value)
