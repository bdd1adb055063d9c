"""The rules that combine models, as ONNX operators: mean, weighted mean, vote, stacking, pipeline."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from modak_deploy.errors import InputError
from modak_deploy.onnx.graphs import require_onnx
from modak_deploy.onnx.manifest import Combination, DataType, Dimension, TensorSpec
from modak_deploy.onnx.sharing import Inputs, declare, element_type, fits, own_shape
from modak_deploy.util.text import nearest, plural

if TYPE_CHECKING:
    from modak_deploy.onnx.combine import Part

_FLOATS: tuple[DataType, ...] = ("float16", "bfloat16", "float32", "float64")
_INTEGERS: tuple[DataType, ...] = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")


class Tail:
    """What comes after the models: nodes, constants and the outputs of the ensemble."""

    def __init__(self, combination: Combination) -> None:
        self._combination = combination
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self.outputs: list[Any] = []
        self._taken: Collection[str] = ()

    def connect(self, parts: Sequence["Part"], inputs: Inputs) -> None:
        """Connect the models to the ensemble's inputs, to one another, and to its outputs."""
        rule, self._taken = self._combination.rule, inputs.names
        if rule == "pipeline":
            self._pipeline(parts, inputs)
            return
        base = [part for part in parts if part.name != self._combination.meta]
        for part in base:
            inputs.connect(part)
        combined = [(part, part.output(self._combination.outputs.get(part.name), rule)) for part in base]
        if rule == "stacking":
            self._stacking(combined, next(part for part in parts if part.name == self._combination.meta))
        elif rule == "vote":
            self._vote(combined)
        else:
            self._mean(combined)

    def _node(self, operator: str, names: Sequence[str], result: str, **attributes: Any) -> str:
        """Add a node and return its result's name; it begins with a slash, which no model's name does."""
        name = f"/{result}" if not result.startswith("/") else result
        self.nodes.append(require_onnx().helper.make_node(operator, list(names), [name], name, **attributes))
        return name

    def _constant(self, name: str, values: Any, dtype: DataType) -> str:
        helper, number = require_onnx().helper, element_type(dtype)
        flat = values if isinstance(values, list) else [values]
        shape = [len(flat)] if isinstance(values, list) else []
        tensor = helper.make_tensor(f"/{name}", number, shape, flat)
        self.initialisers.append(tensor)
        return f"/{name}"

    def _give(self, tensor: str, name: str, dtype: DataType, shape: list[Dimension]) -> None:
        name = f"{name}.out" if name in self._taken else name  # a graph's inputs and outputs have names of their own
        self.nodes.append(require_onnx().helper.make_node("Identity", [tensor], [name], f"/output/{name}"))
        self.outputs.append(declare(name, dtype, own_shape(shape)))

    def _cast(self, part: "Part", spec: TensorSpec, dtype: DataType) -> str:
        if spec.dtype == dtype:
            return part.inner(spec.name)
        return self._node("Cast", [part.inner(spec.name)], f"cast/{part.name}", to=element_type(dtype))

    def _mean(self, combined: Sequence[tuple["Part", TensorSpec]]) -> None:
        shape = _common_shape(combined, self._combination.rule)
        if wrong := next((f"{part.name}: {spec}" for part, spec in combined if spec.dtype not in _FLOATS), None):
            raise InputError(f"combination: a mean of floating-point numbers is not possible with {wrong}; use 'vote'")
        dtype = max((spec.dtype for _, spec in combined), key=_FLOATS.index)
        weights = self._combination.weights or {part.name: 1.0 for part, _ in combined}
        total = sum(weights.values())
        scaled = []
        for part, spec in combined:
            factor = self._constant(f"weight/{part.name}", weights[part.name] / total, dtype)
            scaled.append(self._node("Mul", [self._cast(part, spec, dtype), factor], f"weighted/{part.name}"))
        names = {spec.name for _, spec in combined}
        self._give(self._node("Sum", scaled, "mean"), names.pop() if len(names) == 1 else "output", dtype, shape)

    def _vote(self, combined: Sequence[tuple["Part", TensorSpec]]) -> None:
        """Count for each model's label how much weight chose the same, and take the lowest of those with most."""
        table = self._node("Concat", [self._label(part, spec) for part, spec in combined], "labels", axis=1)
        mine = self._node("Unsqueeze", [table, self._constant("last", [2], "int64")], "mine")
        axis = self._constant("axis", [1], "int64")
        equal = self._node("Equal", [mine, self._node("Unsqueeze", [table, axis], "others")], "equal")
        votes = self._node("Cast", [equal], "votes", to=element_type("float32"))
        weights = [self._combination.weights.get(part.name, 1.0) for part, _ in combined]
        counts = self._node("MatMul", [votes, self._constant("weights", weights, "float32")], "counts")
        most = self._extreme(counts, "most", largest=True)
        # Sums of the same weights in another order may differ in their last digit.
        nearly = self._node("Mul", [most, self._constant("nearly-all", 1 - 1e-6, "float32")], "nearly")
        won = self._node("GreaterOrEqual", [counts, nearly], "won")
        beyond = self._constant("beyond", 2**63 - 1, "int64")
        chosen = self._extreme(self._node("Where", [won, table, beyond], "candidates"), "lowest", largest=False)
        self._give(self._node("Squeeze", [chosen, axis], "label"), "label", "int64", ["batch"])
        share = self._node("Div", [most, self._constant("total", sum(weights), "float32")], "share")
        self._give(self._node("Squeeze", [share, axis], "agreement"), "agreement", "float32", ["batch"])

    def _extreme(self, tensor: str, result: str, *, largest: bool) -> str:
        """Return the largest or smallest value along axis 1, which stays.

        Not ReduceMax: its axes are an attribute up to opset 17, and an input from 18 on.
        """
        helper = require_onnx().helper
        attributes = {"axis": 1, "largest": int(largest), "sorted": 1}
        names = [f"/{result}", f"/{result}/at"]
        count = self._constant(f"{result}/k", [1], "int64")
        self.nodes.append(helper.make_node("TopK", [tensor, count], names, f"/{result}", **attributes))
        return names[0]

    def _stacking(self, combined: Sequence[tuple["Part", TensorSpec]], meta: "Part") -> None:
        """Join the models' outputs along axis 1, and let the meta-model take them."""
        if len(meta.inputs) != 1 or len(meta.inputs[0].shape) != 2:
            raise InputError(f"combination.meta: '{meta.name}' must have one input with 2 dimensions for 'stacking'")
        taken, columns = meta.inputs[0], []
        for part, spec in combined:
            if len(spec.shape) not in (1, 2):
                raise InputError(f"combination: '{part.name}' gives {spec}; 'stacking' needs 1 or 2 dimensions")
            tensor = self._cast(part, spec, taken.dtype)
            if len(spec.shape) == 1:
                tensor = self._node("Reshape", [tensor, self._column()], f"column/{part.name}")
            columns.append(tensor)
        sizes = [1 if len(spec.shape) == 1 else spec.shape[1] for _, spec in combined]
        wide = taken.shape[1]
        if isinstance(wide, int) and all(isinstance(size, int) for size in sizes):
            total = sum(size for size in sizes if isinstance(size, int))
            if total != wide:
                raise InputError(f"combination.meta: '{meta.name}' takes {wide} columns, and the models give {total}")
        joined = self._node("Concat", columns, "stacked", axis=1)
        self._pass(joined, meta.inner(taken.name))
        self._give_all(meta)

    def _pipeline(self, parts: Sequence["Part"], inputs: Inputs) -> None:
        """Connect each model's outputs to the next model's inputs; other inputs are the ensemble's."""
        inputs.connect(parts[0])
        for at, (before, after) in enumerate(pairwise(parts)):
            links = self._combination.connect[at] if self._combination.connect else _by_position(before, after)
            takes = {spec.name: spec for spec in after.inputs}
            gives = {spec.name: spec for spec in before.outputs}
            for to, source in links.items():
                where = f"combination.connect[{at}].{to}"
                if to not in takes:
                    raise InputError(f"{where}: input '{to}' of '{after.name}' not found{nearest(to, takes)}")
                if source not in gives:
                    raise InputError(f"{where}: output '{source}' of '{before.name}' not found{nearest(source, gives)}")
                if not fits(gives[source], takes[to], dtype=False):
                    raise InputError(f"{where}: {gives[source]} of '{before.name}' does not fit {takes[to]}")
                tensor = before.inner(source)
                if gives[source].dtype != takes[to].dtype:
                    to_type = element_type(takes[to].dtype)
                    tensor = self._node("Cast", [tensor], f"cast/{after.name}/{to}", to=to_type)
                self._pass(tensor, after.inner(to))
            inputs.connect(after, without=set(links))
        self._give_all(parts[-1])

    def _pass(self, tensor: str, to: str) -> None:
        self.nodes.append(require_onnx().helper.make_node("Identity", [tensor], [to], f"/to/{to}"))

    def _give_all(self, part: "Part") -> None:
        for spec in part.outputs:
            self._give(part.inner(spec.name), spec.name, spec.dtype, spec.shape)

    def _label(self, part: "Part", spec: TensorSpec) -> str:
        """Return a model's class as int64[batch, 1]."""
        tensor, sizes = part.inner(spec.name), spec.shape
        if spec.dtype in _INTEGERS and (len(sizes) == 1 or (len(sizes) == 2 and sizes[1] == 1)):
            label = self._cast(part, spec, "int64")
        elif spec.dtype in _FLOATS and len(sizes) == 2 and sizes[1] != 1:
            label = self._node("ArgMax", [tensor], f"class/{part.name}", axis=1, keepdims=1)
        else:
            raise InputError(
                f"combination: '{part.name}' gives {spec}; 'vote' needs whole-number labels, or a score for each class "
                "(scikit-learn: zipmap=False, and the probabilities)"
            )
        return self._node("Reshape", [label, self._column()], f"label/{part.name}")

    def _column(self) -> str:
        if not any(tensor.name == "/column" for tensor in self.initialisers):
            self._constant("column", [-1, 1], "int64")
        return "/column"


def _common_shape(combined: Sequence[tuple["Part", TensorSpec]], rule: str) -> list[Dimension]:
    """Return the shape of outputs that are combined number by number; InputError where they differ."""
    first_part, first = combined[0]
    for part, spec in combined[1:]:
        if not fits(first, spec, dtype=False):
            raise InputError(
                f"combination: '{rule}' needs outputs of one shape: {first_part.name} gives {first}, {part.name} {spec}"
            )
    shapes = [spec.shape for _, spec in combined]
    return [next((size for size in sizes if isinstance(size, int)), None) for sizes in zip(*shapes, strict=True)]


def _by_position(before: "Part", after: "Part") -> dict[str, str]:
    """Return input by output where the user named none: by name if names fit, else one to one."""
    names = {spec.name for spec in before.outputs}
    if all(spec.name in names for spec in after.inputs):
        return {spec.name: spec.name for spec in after.inputs}
    if len(before.outputs) != len(after.inputs):
        raise InputError(
            f"combination.connect: is required: '{before.name}' has {plural(len(before.outputs), 'output')}, "
            f"'{after.name}' {plural(len(after.inputs), 'input')}"
        )
    return {to.name: source.name for source, to in zip(before.outputs, after.inputs, strict=True)}
