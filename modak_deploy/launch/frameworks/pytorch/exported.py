"""Modules in evaluation mode as graphs, for other software to do them: traced, or by ``torch.export`` (since 2.5)."""

import contextlib
import functools
from types import MappingProxyType
from typing import AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from ... import structures
from . import outputs
from .conversions import Shelf
from .following import Following
from .otherwise import Refusal
from .tables import numbers_of_rows
from .traced import trace
from .values import Reading

INEFFECTIVE = (
    "pytorch-bf16-weights",
    "pytorch-autocast-bf16",
    "pytorch-autocast-fp16",
    "pytorch-channels-last",
    "pytorch-one-thread",
)
"""Levers that change how PyTorch computes: not where other software does."""


Keep = Optional[Callable[[bytes], None]]


class Program(NamedTuple):
    """What was made for one form of arguments."""

    infer: Callable[[List[Any]], List[Any]]
    """From the arguments' tensors, in their order, to the result's."""
    result: Any
    """The result's structure with a slot in place of each tensor."""
    checks: List[Any] = []
    """What looks at the arguments of each call: numbers of rows, ranges, and masks."""


class Content(NamedTuple):
    """What another process made for one form of arguments."""

    form: Any
    data: bytes


class Observed(NamedTuple):
    """What a call of the module has shown."""

    tensors: List[Any]
    """Those of the arguments, copied."""
    flat: Any
    """The module from them to the tensors of the result."""
    reading: Optional[Reading]
    """Whether the call is a guide to others, where that matters."""
    checks: List[Any]
    """What looks at the arguments of each call."""


class Slot(int):
    """The number of a tensor of the result."""


class Given(int):
    """The number of an argument's tensor, which the result holds itself."""


class Exported:
    """Does what a module does; it is exported when arguments of a new form come.

    Where values of tensors may decide what is done it is exported by ``torch.export``, which refuses that; else it is
    traced. What is written to a module's attributes is noticed elsewhere (``watch``).
    """

    keeping: AbstractSet[str] = frozenset()
    """Operations whose results are not numbers where PyTorch's are none."""
    otherwise: Mapping[str, Refusal] = MappingProxyType({})
    """Operations that may be done in another way."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self.module = module
        self._programs: Dict[Any, Program] = {}
        self._contents: Dict[Any, bytes] = {}
        self.shelf: Optional[Shelf] = None
        """Where what is made is kept for later runs, and looked for first."""

    def made(self, graph: Any, tensors: List[Any], keep: Keep = None) -> Callable[[List[Any]], List[Any]]:
        """Return what does a graph, from tensors like the given ones to the result's.

        ``keep``, where there is one, is given what ``written`` returns.
        """
        raise NotImplementedError

    def written(self, graph: Any, tensors: List[Any]) -> bytes:
        """Return a graph as ``read`` takes it in another process."""
        raise NotImplementedError

    def read(self, data: bytes, tensors: List[Any], results: List[Any]) -> Callable[[List[Any]], List[Any]]:
        """Return what does a program that ``written`` returned, and that has results like the given ones."""
        raise NotImplementedError

    def judged(self, sound: bool) -> bool:
        """Take whether results agree; return whether they come from what an earlier run kept, which is removed then."""
        return self.shelf is not None and self.shelf.judged(sound, [*self._programs, *self._contents])

    def take(self, content: Content) -> None:
        """Have what another process made do calls of its form."""
        self._contents[content.form] = content.data

    def content(self, args: Any, kwargs: Any) -> bytes:
        """Return what does calls like this one, for another process to take."""
        torch = self._torch
        with torch.inference_mode(False), torch.no_grad():
            observed = self._observed(args, kwargs)
            return self.written(self._graph(observed), observed.tensors)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_leaf = outputs.is_tensor(self._torch)
        form = form_of_call(self._torch, args, kwargs)
        given = structures.leaves((args, kwargs), is_leaf)
        program = self._programs.get(form)
        if program is None:
            program = self._programs[form] = self._program(args, kwargs, form)
        tensors = [tensor.detach() for tensor in given]
        for entry in program.checks:
            entry.check(self._torch, tensors)
        results = program.infer(tensors)
        if any(
            map(functools.partial(_lacks_numbers, self._torch), results)
        ):  # as of attention that is masked as a whole
            raise ArithmeticError("a result holds values that are not numbers")

        def fill(slot: Any) -> Any:
            return (given if isinstance(slot, Given) else results)[slot]

        return structures.replace(program.result, fill, _is_slot)

    def _program(self, args: Any, kwargs: Any, form: Any) -> Program:
        torch, shelf = self._torch, self.shelf
        with torch.inference_mode(False), torch.no_grad():
            observed = self._observed(args, kwargs)
            tensors, flat = observed.tensors, observed.flat
            data = self._contents.get(form)
            if data is None and shelf is not None:
                data = shelf.find(form)
            if data is not None:
                infer = self.read(data, tensors, flat.likes)
                self._contents.pop(form, None)
                return Program(infer, flat.result, observed.checks)
            keep = None if shelf is None else functools.partial(shelf.keep, form)
            infer = self.made(self._graph(observed), tensors, keep)
        return Program(infer, flat.result, observed.checks)

    def _is_traced(self, tensors: List[Any]) -> bool:
        """Tell whether a trace is tried before the module is exported, with such arguments."""
        return True

    def _graph(self, observed: Observed) -> Any:
        """Return the module as a graph: traced, where no value decides what is done, which is quick."""
        tensors, flat, reading, _ = observed
        if reading is not None:
            results = flat.likes
            reading.used(results)
            traced = trace(self._torch, flat, tensors, reading.numbers) if reading.what is None else None
            # A trace has tensors for sizes, also where these are results.
            alike = traced is not None and len(flat.likes) == len(results)
            graph = self._from_trace(traced, tensors, results) if alike else None
            if graph is not None:
                return graph
        return self._from_exported(self._torch.export.export(flat, tuple(tensors), strict=False), tensors)

    def _from_trace(self, traced: Any, tensors: List[Any], results: List[Any]) -> Any:
        """Return the graph of a traced module; None where it has to be exported. ``results`` are those of the call."""
        raise NotImplementedError

    def _from_exported(self, exported: Any, tensors: List[Any]) -> Any:
        """Return the graph of an exported program."""
        raise NotImplementedError

    def _observed(self, args: Any, kwargs: Any) -> Observed:
        """Return what a call with copies of the arguments shows."""
        is_leaf = outputs.is_tensor(self._torch)
        tensors = [tensor.detach().clone() for tensor in structures.leaves((args, kwargs), is_leaf)]
        flat = _flat(self._torch, self.module, args, kwargs)
        versions = [tensor._version for tensor in tensors]
        sources = [*tensors, *flat.parameters(), *flat.buffers()]
        reading = Reading(self._torch, sources) if self._is_traced(tensors) else None
        following = Following(self._torch, tensors, self.keeping, self.otherwise)
        with following, contextlib.nullcontext() if reading is None else reading:
            flat(*tensors)
        if versions != [tensor._version for tensor in tensors]:
            raise structures.Unsupported("a call changes its arguments")
        if not flat.likes:
            raise structures.Unsupported("a call computes no tensor")
        following.used(flat.likes)
        if following.reason is not None:
            raise structures.Unsupported(following.reason)
        numbers = [] if reading is None else numbers_of_rows(reading.lookups, tensors)
        return Observed(tensors, flat, reading, [*numbers, *following.checks()])


def _lacks_numbers(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor holds what is not a number; the sum does then, and seldom otherwise."""
    if not tensor.is_floating_point() or not bool(torch.isnan(tensor.sum())):
        return False
    return bool(torch.isnan(tensor).any())


def _is_slot(value: Any) -> bool:
    return isinstance(value, (Slot, Given))


def results_of(exported: Any) -> List[Any]:
    """Return the program's results as tensors without content, which have their sizes and types."""
    (output,) = (node for node in exported.graph.nodes if node.op == "output")
    return [node.meta["val"] for node in output.args[0]]


def form_of(tensor: Any) -> Any:
    """Return what a tensor must have in common with another for the same program."""
    return (tuple(tensor.shape), tensor.dtype, tensor.device)


def form_of_call(torch: Any, args: Any, kwargs: Any) -> Any:
    """Return what a call must have in common with another for the same program."""
    return structures.shape((args, kwargs), form_of, outputs.is_tensor(torch))


def _flat(torch: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """Return a module from the tensors among the arguments to those of the result."""
    is_leaf = outputs.is_tensor(torch)

    class Flat(torch.nn.Module):  # type: ignore[misc]
        result: Any = None
        likes: Any = ()
        """The tensors of the result."""

        def forward(self, *tensors: Any) -> Any:
            left = iter(tensors)
            given = structures.replace((args, kwargs), lambda _: next(left), is_leaf)
            result = self.module(*given[0], **given[1])
            returned: List[Any] = []
            slots: Dict[int, Any] = {id(tensor): Given(number) for number, tensor in enumerate(tensors)}

            def slot(tensor: Any) -> Any:
                if id(tensor) not in slots:
                    slots[id(tensor)] = Slot(len(returned))
                    returned.append(tensor)
                return slots[id(tensor)]

            Flat.result, Flat.likes = structures.replace(result, slot, is_leaf), returned
            return tuple(returned)

    flat = Flat()
    flat.module = module
    flat.training = False  # eval() would be taken for the program's
    return flat
