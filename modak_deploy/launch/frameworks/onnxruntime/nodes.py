"""The operations of an ONNX model, read from its bytes: the package ``onnx`` may be absent.

The numbers are those of the fields in onnx.proto, which have not changed since its first version.
"""

import contextlib
import mmap
from typing import Any, Iterator, List, NamedTuple, Tuple

from ...files import open_file

_GRAPH, _FUNCTIONS = 7, 25
"""Fields of a model."""
_NODES, _FUNCTION_NODES = 1, 7
_INPUT, _KIND, _ATTRIBUTE = 1, 4, 5
"""Fields of a node."""
_SUBGRAPHS = (6, 11)
"""Fields of an attribute: a graph, as the branches of If and the body of Loop are, and several."""
_ORT = b"ORTM"
"""What stands at the fifth byte of a model in ONNX Runtime's own format (flatbuffers)."""
_RANDOM = (
    "Bernoulli",
    "BiasDropout",
    "BitmaskBiasDropout",
    "BitmaskDropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Sampling",
)
_TRAINING = 2
"""The input of Dropout that says whether it is done as in training; without it, it does nothing."""


class Node(NamedTuple):
    """One operation: its kind, and the names of its inputs."""

    kind: str
    inputs: List[str]


def draws(model: Any) -> bool:
    """Return whether a model, a path or bytes, may draw random numbers."""
    with _content(model) as content:
        if content[4:8] == _ORT:
            return any(content.find(name.encode()) >= 0 for name in (*_RANDOM, "Dropout"))
        return any(node.kind in _RANDOM or _drops(node) for node in _nodes(content))


def _drops(node: Node) -> bool:
    return node.kind == "Dropout" and bool("".join(node.inputs[_TRAINING:]))


@contextlib.contextmanager
def _content(model: Any) -> Iterator[Any]:
    if isinstance(model, bytes):
        yield model
        return
    with open_file(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def _nodes(content: Any) -> Iterator[Node]:
    for number, start, end in _fields(content, 0, len(content)):
        if number == _GRAPH:
            yield from _within(content, start, end, _NODES)
        elif number == _FUNCTIONS:
            yield from _within(content, start, end, _FUNCTION_NODES)


def _within(content: Any, start: int, end: int, nodes: int) -> Iterator[Node]:
    """Yield the nodes of a graph or function, and of the graphs that these hold."""
    for number, first, last in _fields(content, start, end):
        if number != nodes:
            continue
        kind, inputs = "", []
        for field, left, right in _fields(content, first, last):
            if field == _KIND:
                kind = content[left:right].decode("utf-8", "replace")
            elif field == _INPUT:
                inputs.append(content[left:right].decode("utf-8", "replace"))
            elif field == _ATTRIBUTE:
                for part, begin, stop in _fields(content, left, right):
                    if part in _SUBGRAPHS:
                        yield from _within(content, begin, stop, _NODES)
        yield Node(kind, inputs)


def _fields(content: Any, position: int, end: int) -> Iterator[Tuple[int, int, int]]:
    """Yield the number, start and end of each field of a message that has a length, as texts and messages have."""
    while position < end:
        key, position = _number(content, position)
        kind = key & 7
        if kind == 0:
            _, position = _number(content, position)
        elif kind == 2:
            length, position = _number(content, position)
            if length > end - position:
                raise ValueError("the model's file is cut off")
            yield key >> 3, position, position + length
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError("this is no ONNX model")


def _number(content: Any, position: int) -> Tuple[int, int]:
    """Return a number of seven bits in each byte, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
