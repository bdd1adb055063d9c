"""Whether a call of a module does anything beside its result, on which nothing is tried then."""

import contextlib
import functools
import logging
import sys
import threading
import warnings
from typing import Any, Callable, Iterator, List, Optional, Tuple

from ... import structures
from . import outputs, watch
from .values import Reading

CHANGES = "a call changes the module's state or draws random numbers"
LEFT_ALIGNED = "_nested_tensor_from_mask_left_aligned"
"""Has encoders of transformers leave padding out, or not, by the values of a mask (PyTorch 1.13 to 2.13)."""


def observed(
    torch: Any, root: Any, impl: Callable[..., Any], args: Any, kwargs: Any, first: bool
) -> Tuple[Any, Optional[str]]:
    """Do a call; return its result, and why the module is left alone.

    What the ``first`` call writes is not written by each: a warning, for example.
    """
    is_leaf = outputs.is_tensor(torch)
    tensors = structures.leaves((args, kwargs), is_leaf)
    copies = [tensor.detach().clone() for tensor in tensors]
    held = structures.Held((args, kwargs))
    before = watch.State(torch, root)
    reading = _reading(torch, root)
    with _counting() as output, reading or contextlib.nullcontext():
        result = impl(*args, **kwargs)
    if before != watch.State(torch, root):
        return result, CHANGES
    if not (held.unchanged() and all(map(functools.partial(outputs.equal, torch), tensors, copies))):
        return result, "a call changes its arguments"
    if reading is not None and LEFT_ALIGNED in reading.operations:
        return result, "the values of a mask decide whether padding is left out"
    if output.count and not first:
        return result, "a call writes output"
    return result, _refusal(torch, root, result, tensors, before.tensors)


def _refusal(torch: Any, root: Any, result: Any, tensors: List[Any], seen: List[Any]) -> Optional[str]:
    """Return why no other result can take the place of the module's own."""
    tables = (table for module in root.modules() for table in (module._parameters, module._buffers))
    held = [*seen, *(tensor for table in tables for tensor in table.values() if tensor is not None)]
    try:
        outputs.form(torch, result)
        borrowed = outputs.borrowed(torch, result, tensors, held)
        overlapping = outputs.overlapping(torch, result)
    except structures.Unsupported as error:
        return "the result cannot be looked into: {}".format(error)
    if overlapping:
        return "two results have numbers in common"
    return "a result is a part of the arguments or weights" if borrowed else None


def _reading(torch: Any, root: Any) -> Optional[Reading]:
    """Return what notes the operations of a call, where one of them may leave padding out."""
    encoders = [part for part in root.modules() if isinstance(part, torch.nn.TransformerEncoder)]
    able = any(getattr(encoder, "use_nested_tensor", True) for encoder in encoders)
    return Reading(torch, (), methods=False) if able else None


class _Output:
    """Counts how often a thread writes to the program's output, warns, or has a record of a log written."""

    def __init__(self) -> None:
        self.thread: Optional[int] = threading.get_ident()
        self.count = 0

    def note(self) -> None:
        """Take note of something that is written, by whichever thread."""
        self.count += threading.get_ident() == self.thread

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that takes note of its calls."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.note()
            return function(*args, **kwargs)

        return noted


class _Stream:
    """Stands for an output stream."""

    def __init__(self, stream: Any, output: _Output) -> None:
        self._stream = stream
        self._output = output

    def write(self, text: str) -> Any:
        self._output.note()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _counting() -> Iterator[_Output]:
    """Count what this thread writes.

    Handlers of logs hold the streams, or files, that they write to. A warning may be collected, as by
    ``catch_warnings(record=True)``, where Python looks up the function that shows it (Python 3.6 to 3.14).
    """
    output = _Output()
    made: List[Tuple[Any, str, Any, Any]] = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:
            made.append((sys, name, stream, _Stream(stream, output)))
    for owner, name in ((logging.Handler, "handle"), (warnings, "_showwarnmsg")):
        function = getattr(owner, name, None)
        if function is not None:
            made.append((owner, name, function, output.before(function)))
    for owner, name, _, noted in made:
        setattr(owner, name, noted)
    try:
        yield output
    finally:
        output.thread = None  # what has taken it for its own meanwhile may go on with it
        for owner, name, before, noted in made:
            if getattr(owner, name, None) is noted:
                setattr(owner, name, before)
