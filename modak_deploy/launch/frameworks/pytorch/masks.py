"""Rows of masks of attention that hide all of what they are for: PyTorch makes something else of them.

What a mask is made of is done once more before a call, from the call's arguments, where that is little.
"""

import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from . import outputs
from .values import tensors_in

MOST = 32
"""Operations on the way from the arguments to a mask."""
HIDING: Dict[str, Callable[[Any], Any]] = {
    "lowest": lambda mask: mask == float("-inf"),
    "true": lambda mask: mask.bool(),
    "false": lambda mask: ~mask.bool(),
}
"""What of a mask hides: where it is minus infinity, or what it says."""
HIDES_ALL = "a row of a mask hides all of what it is for"


class Ref(int):
    """The number of a tensor that an operation has made, or of an argument."""


class Blank(NamedTuple):
    """A tensor of which an operation uses the sizes alone."""

    shape: Tuple[int, ...]
    dtype: Any
    device: Any

    def made(self, torch: Any) -> Any:
        """Return such a tensor, which takes no memory."""
        return torch.empty((), dtype=self.dtype, device=self.device).expand(self.shape)


class Step(NamedTuple):
    """An operation that was done."""

    function: Any
    given: Any
    """Its arguments, with references in place of tensors that depend on those of the call."""
    used: Tuple[Tuple[int, int], ...]
    """Numbers of the tensors that it is given, and their memory."""
    made: List[int]
    """Numbers of its results."""
    fresh: Set[int]
    """Memory that had another use before, if any."""
    written: Optional[int]
    """The memory that it changes."""
    lasting: bool
    """Whether that is of a tensor which does not depend on the arguments: it would be changed again by each call."""


class Mask(NamedTuple):
    """A part of what hides in attention."""

    tensor: Any
    """A reference, or a tensor that is the same in all calls."""
    how: str


class Steps:
    """What was done with tensors that depend on the arguments of a call."""

    def __init__(self, torch: Any, tensors: List[Any]) -> None:
        self._torch = torch
        self._is_leaf = outputs.is_tensor(torch)
        self._numbers: Dict[int, Tuple[Any, int]] = {}
        self._steps: List[Step] = []
        self._count = 0
        for tensor in tensors:
            self._number(tensor)

    def _number(self, tensor: Any) -> int:
        self._numbers[id(tensor)] = weakref.ref(tensor), self._count
        self._count += 1
        return self._count - 1

    def reference(self, tensor: Any) -> Any:
        """Return what stands for a tensor: a reference, or itself where it does not depend on the arguments."""
        reference, number = self._numbers.get(id(tensor), (lambda: None, 0))
        return Ref(number) if reference() is tensor else tensor

    def add(self, function: Any, call: Any, result: Any, written: Optional[Any], sizes: bool) -> None:
        """Note an operation; ``written`` is the tensor that it changes, ``sizes`` whether it uses sizes alone."""
        references = [(self.reference(tensor), tensor) for tensor in tensors_in(self._is_leaf, call)]
        used = tuple((int(stands), begin(tensor)) for stands, tensor in references if isinstance(stands, Ref))
        given = _replaced(self._is_leaf, call, _blank if sizes else self.reference)
        lasting = written is not None and not isinstance(self.reference(written), Ref)
        results = tensors_in(self._is_leaf, result)
        fresh = set(map(begin, results)) - {begin(tensor) for _, tensor in references}
        made = [self._numbered(tensor) for tensor in results]
        at = None if written is None else begin(written)
        self._steps.append(Step(function, given, () if sizes else used, made, fresh, at, lasting))

    def _numbered(self, tensor: Any) -> int:
        reference = self.reference(tensor)
        return int(reference) if isinstance(reference, Ref) else self._number(tensor)

    def rows(self, masks: List[Mask], arguments: int) -> Optional["Rows"]:
        """Return what looks at the rows of what masks hide together; None where too much leads to them."""
        wanted = {int(mask.tensor) for mask in masks if isinstance(mask.tensor, Ref)}
        memory: Set[int] = set()
        taken: List[Step] = []
        for step in reversed(self._steps):
            if wanted.isdisjoint(step.made) and step.written not in memory:
                continue
            taken.append(step)
            if len(taken) > MOST or step.lasting:
                return None
            memory -= step.fresh
            wanted.update(number for number, _ in step.used)
            memory.update(used for _, used in step.used)
        return Rows(self._torch, masks, taken[::-1], arguments)


class Rows:
    """Looks at what masks hide in a call, made of the call's arguments as the module makes it."""

    def __init__(self, torch: Any, masks: List[Mask], steps: List[Step], arguments: int) -> None:
        self._torch = torch
        self._masks = masks
        self._steps = steps
        self._arguments = arguments

    @property
    def fixed(self) -> bool:
        """Tell whether all calls have the same."""
        return not self._steps and not any(isinstance(mask.tensor, Ref) for mask in self._masks)

    @property
    def key(self) -> Any:
        """Return what is the same for two that look at the same: as those of the layers of a network."""
        names: Dict[int, int] = {number: number for number in range(self._arguments)}
        described: List[Any] = []
        for step in self._steps:
            described.append((str(step.function), _described(step.given, names)))
            for number in step.made:
                names.setdefault(number, len(names))
        return repr((described, [(_described(mask.tensor, names), mask.how) for mask in self._masks]))

    def hides_all(self, given: List[Any]) -> bool:
        """Tell whether a row hides all, in a call with such tensors."""
        values: Dict[int, Any] = dict(enumerate(given))
        is_leaf = outputs.is_tensor(self._torch)
        with self._torch.no_grad():
            for step in self._steps:
                args, kwargs = _replaced(_stands_for, step.given, self._filled(values))
                made = tensors_in(is_leaf, step.function(*args, **kwargs))
                values.update(zip(step.made, made))
            hidden: Any = None
            for mask in self._masks:
                tensor = values[mask.tensor] if isinstance(mask.tensor, Ref) else mask.tensor
                hides = HIDING[mask.how](tensor)
                hidden = hides if hidden is None else hidden | hides
            return bool(hidden.all(-1).any())

    def _filled(self, values: Dict[int, Any]) -> Callable[[Any], Any]:
        torch = self._torch
        return lambda stands: stands.made(torch) if isinstance(stands, Blank) else values[stands]

    def check(self, torch: Any, given: List[Any]) -> None:
        """Raise ArithmeticError where a row hides all."""
        if self.hides_all(given):
            raise ArithmeticError(HIDES_ALL)


def begin(tensor: Any) -> int:
    """Return what tells a tensor's memory from all other that there is; 0 where it has none of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def _stands_for(value: Any) -> bool:
    return isinstance(value, (Ref, Blank))


def _blank(tensor: Any) -> Blank:
    return Blank(tuple(tensor.shape), tensor.dtype, tensor.device)


def _replaced(is_leaf: Callable[[Any], bool], value: Any, change: Callable[[Any], Any]) -> Any:
    """Return an operation's arguments with other leaves; they hold types and devices besides numbers."""
    if is_leaf(value):
        return change(value)
    if isinstance(value, dict):
        return {name: _replaced(is_leaf, item, change) for name, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_replaced(is_leaf, item, change) for item in value)
    return value


def _described(value: Any, names: Dict[int, int]) -> Any:
    if isinstance(value, Ref):
        return "@{}".format(names.get(int(value), -1))
    if isinstance(value, dict):
        return [(name, _described(item, names)) for name, item in sorted(value.items())]
    if isinstance(value, (tuple, list)):
        return [_described(item, names) for item in value]
    if hasattr(value, "untyped_storage"):  # one that lasts, or a part of it
        return (begin(value), tuple(value.shape), value.stride(), value.storage_offset(), str(value.dtype))
    return repr(value)
