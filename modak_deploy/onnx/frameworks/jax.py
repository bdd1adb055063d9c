"""JAX: a function of parameters and inputs, or of inputs alone; jax2onnx, or TensorFlow's by jax2tf."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Arrays
from modak_deploy.onnx.frameworks.base import (
    ConversionError,
    Exported,
    Framework,
    Original,
    Value,
    build,
    named_outputs,
    resolve,
    user_code,
)
from modak_deploy.onnx.packages import require
from modak_deploy.onnx.task import Task


class Jax(Framework):
    """Functions of JAX, and what Flax or Equinox make callable."""

    name = "jax"
    packages = {"jax": "jax", "jax2onnx": "jax2onnx"}
    extra = "convert-jax"
    distributions = ("jax", "jaxlib", "jax2onnx", "onnx")

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the function; weights of ``file`` are its first argument, a dictionary of arrays."""
        if task.reference is None:
            raise InputError("class: is required for jax: 'module:function', with its weights in 'file'")
        with user_code(task):
            function = build(task) if task.arguments else resolve(task)
            if inspect.isclass(function):
                function = build(task)
        if not callable(function):
            raise InputError(f"class: {task.reference} is not a function")
        if task.file is None:
            return JaxFunction(task, function, example)
        weights = _weights(Path(task.file))
        return JaxFunction(task, lambda *inputs: function(weights, *inputs), example)


def _weights(path: Path) -> Arrays:
    if path.suffix == ".safetensors":
        numpy = require("safetensors.numpy", "safetensors", purpose=f"{path}: a .safetensors file", extra="convert")
        return dict(numpy.load_file(path))
    if path.suffix != ".npz":
        raise InputError(f"{path}: the suffix {path.suffix or 'none'} is not supported for weights; use .npz")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as .npz without unpickling: {error}") from None


class JaxFunction(Original):
    """A function of arrays."""

    def __init__(self, task: Task, function: Any, example: Arrays) -> None:
        self.task = task
        self.function = function
        self.example = example

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``."""
        import jax

        outputs = self.function(*[inputs[name] for name in self.example])
        return named_outputs(jax.tree_util.tree_map(np.asarray, outputs), self.task.outputs)

    def convert(self, path: Path, opset: int) -> Exported:
        """Convert by jax2onnx."""
        import jax
        import jax2onnx
        import onnx

        batch: list[Any] = ["B"] if self.task.batch else []
        shapes = [
            jax.ShapeDtypeStruct(array.shape, array.dtype) if not batch else ("B", *array.shape[1:])
            for array in self.example.values()
        ]
        others = {array.dtype for array in self.example.values()} - {np.dtype("float32")}
        if batch and others:
            scope = jax.export.SymbolicScope()
            (size,) = jax.export.symbolic_shape("B", scope=scope)
            shapes = [jax.ShapeDtypeStruct((size, *array.shape[1:]), array.dtype) for array in self.example.values()]
        try:
            model = jax2onnx.to_onnx(self.function, inputs=shapes, model_name=self.task.name, opset=min(opset, 23))
        except jax.errors.TracerBoolConversionError as error:
            raise ConversionError(
                f"the control flow depends on the data: {_where(error)}; use jax.lax.cond, select or jnp.where"
            ) from None
        except Exception as error:  # jax2onnx raises what it comes across
            reason = " ".join(str(error).split())[:400]
            raise ConversionError(f"jax2onnx cannot convert the model: {type(error).__name__}: {reason}") from None
        onnx.save(model, path)
        return Exported("jax2onnx")

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield what each equation of the function's jaxpr gives, those of inner functions included."""
        import jax

        arrays = [inputs[name] for name in self.example]
        closed = jax.make_jaxpr(self.function)(*arrays)
        yield from _equations(closed.jaxpr, closed.consts, arrays)


def _equations(jaxpr: Any, constants: Any, arguments: Any) -> Iterator[Value]:
    """Evaluate a jaxpr as jax.core.eval_jaxpr does, and yield what each equation gives."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for number, equation in enumerate(jaxpr.eqns):
        given = [variable.val if hasattr(variable, "val") else values[variable] for variable in equation.invars]
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in ("jit", "pjit") and inner is not None:
            yield from _equations(inner.jaxpr, inner.consts, given)
        functions, parameters = equation.primitive.get_bind_params(equation.params)
        results = equation.primitive.bind(*functions, *given, **parameters)
        if not equation.primitive.multiple_results:
            results = [results]
        values.update(zip(equation.outvars, results, strict=True))
        yield Value(f"{equation.primitive.name}_{number}", equation.primitive.name, np.asarray(results[0]))


def _where(error: Exception) -> str:
    """Return the line of the user's code that asked for a value."""
    for line in str(error).splitlines():
        if "occurred" in line or ".py:" in line:
            return line.strip()[:200]
    return str(error).partition("\n")[0][:200]
