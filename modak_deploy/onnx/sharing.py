"""The inputs of an ensemble: which models' inputs are the same, and what each takes."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from modak_deploy.errors import InputError
from modak_deploy.onnx.graphs import require_onnx
from modak_deploy.onnx.manifest import Combination, Dimension, TensorSpec

if TYPE_CHECKING:
    from modak_deploy.onnx.combine import Part

ELEMENT_TYPES = {
    "bool": "BOOL",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "string": "STRING",
} | {f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def element_type(dtype: str) -> int:
    """Return ONNX's number of a data type."""
    return int(require_onnx().TensorProto.DataType.Value(ELEMENT_TYPES[dtype]))


def declare(name: str, dtype: str, shape: list[Dimension]) -> Any:
    """Return an input or output of a graph."""
    return require_onnx().helper.make_tensor_value_info(name, element_type(dtype), shape)


class Inputs:
    """The ensemble's inputs, as models are connected to them."""

    def __init__(self, combination: Combination) -> None:
        self._renamed = combination.inputs
        self._specs: dict[str, TensorSpec] = {}
        self.nodes: list[Any] = []

    def connect(self, part: "Part", *, without: Collection[str] = ()) -> None:
        """Let a model's inputs, but for those ``without``, be inputs of the ensemble.

        What the user named comes first; an input of the same name, type and shape is the same; so are the inputs at the
        same position of a model that has as many, where their names differ; any other is an input of its own.
        """
        open_inputs = [spec for spec in part.inputs if spec.name not in without]
        taken = list(self._specs.values())
        positional = not without and len(taken) == len(open_inputs) and all(map(fits, taken, open_inputs))
        same = {spec.name for spec in taken} == {spec.name for spec in open_inputs}
        for at, spec in enumerate(open_inputs):
            given = self._renamed.get(part.name, {}).get(spec.name)
            present = self._specs.get(spec.name)
            if given is not None:
                name = given
            elif present is not None and fits(present, spec):
                name = spec.name
            elif positional and not same:
                name = taken[at].name
            else:
                name = spec.name if present is None else f"{part.name}.{spec.name}"
            self._add(name, spec, part)

    def _add(self, name: str, spec: TensorSpec, part: "Part") -> None:
        present = self._specs.get(name)
        if present is not None and not fits(present, spec):
            raise InputError(
                f"combination.inputs.{part.name}.{spec.name}: {spec} does not fit the ensemble's input {present}"
            )
        shape = _merged(present.shape, spec.shape) if present is not None else own_shape(spec.shape)
        self._specs[name] = TensorSpec(name=name, dtype=spec.dtype, shape=shape)
        node = require_onnx().helper.make_node("Identity", [name], [part.inner(spec.name)], f"{part.name}/input/{name}")
        self.nodes.append(node)

    @property
    def names(self) -> Collection[str]:
        """The names of the ensemble's inputs."""
        return self._specs.keys()

    def declared(self) -> list[Any]:
        """Return the inputs of the graph."""
        return [declare(spec.name, spec.dtype, spec.shape) for spec in self._specs.values()]


def fits(first: TensorSpec, other: TensorSpec, *, dtype: bool = True) -> bool:
    """Return whether two tensors may be the same: equal sizes wherever both are numbers."""
    return (
        (not dtype or first.dtype == other.dtype)
        and len(first.shape) == len(other.shape)
        and all(
            a == b or not isinstance(a, int) or not isinstance(b, int)
            for a, b in zip(first.shape, other.shape, strict=True)
        )
    )


def own_shape(shape: list[Dimension]) -> list[Dimension]:
    """Return a shape whose symbols mean nothing in another model: the first axis is the batch."""
    return [size if isinstance(size, int) else "batch" if axis == 0 else None for axis, size in enumerate(shape)]


def _merged(first: list[Dimension], other: list[Dimension]) -> list[Dimension]:
    pairs = zip(first, own_shape(other), strict=True)
    return [a if isinstance(a, int) else b if isinstance(b, int) else a for a, b in pairs]
