"""PyTorch: a class with weights, a whole module or a torch.export archive; torch.onnx, tracing where needed."""

import inspect
import re
import warnings
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
    check_trust,
    named_outputs,
    user_code,
)
from modak_deploy.onnx.task import Task

LOWEST_EXPORTED = 18
"""torch/onnx/_internal/exporter/_constants.py: TORCHLIB_OPSET, which the operators are written for."""
HIGHEST_TRACED = 20
"""torch/onnx/_constants.py of torch 2.13: ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET."""
_BRANCH = re.compile(r"Converting a tensor to a Python (\w+) might cause the trace to be incorrect")


class PyTorch(Framework):
    """Modules of PyTorch."""

    name = "pytorch"
    packages = {"torch": "torch", "onnxscript": "onnxscript"}
    extra = "convert"
    distributions = ("torch", "onnxscript", "onnx")

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the module, in evaluation mode unless it is stochastic."""
        import torch

        torch.manual_seed(0)
        with user_code(task):
            module = self._module(task)
            archived = task.reference is None and Path(task.file or "").suffix == ".pt2"
            if not task.stochastic and not archived:  # a program of torch.export is what it was, and refuses eval()
                module = module.eval()
            return TorchModule(task, module, example)

    def _module(self, task: Task) -> Any:
        import torch

        if task.reference is not None:
            module = build(task)
            if not isinstance(module, torch.nn.Module):
                raise InputError(
                    f"class: {task.reference} makes a {type(module).__name__}, and must make a torch.nn.Module"
                )
            if task.file is not None:
                _load_state(module, task)
            return module
        path = Path(task.file or "")
        if path.suffix == ".pt2":
            # torch 2.13, torch/export/pt2_archive/_package.py: weights and constants of an archive are read with
            # weights_only=False, and its shapes by sympify, which evaluates text.
            check_trust(task, [".pt2"], "a 'class' with weights in .safetensors")
            return torch.export.load(path).module()
        if path.suffix == ".safetensors":
            raise InputError(f"{path}: the file holds weights alone; 'class' names what they are for")
        if not task.trust:
            raise InputError(
                f"{path}: a whole module is a pickle, which may run any code when it is read; give a 'class' and its "
                "weights, or set 'trust: true' if the file is your own"
            )
        loaded = torch.load(path, map_location="cpu", weights_only=False)
        if not isinstance(loaded, torch.nn.Module):
            raise InputError(
                f"{path}: the file holds a {type(loaded).__name__}, no module; 'class' names what it is for"
            )
        return loaded


def _load_state(module: Any, task: Task) -> None:
    """Put the weights of a file into the module, unpickling nothing but tensors unless the file is trusted."""
    import torch

    path = Path(task.file or "")
    try:
        if path.suffix == ".safetensors":
            from modak_deploy.onnx.packages import require

            state = require("safetensors.torch", "safetensors", purpose=f"{path}: a .safetensors file").load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=not task.trust)
    except InputError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        if "eights only load failed" in str(error) or "Unsupported" in str(error):
            raise InputError(
                f"{path}: the file holds more than tensors, and reading it may run code: {reason}; "
                "save module.state_dict() as .safetensors, or set 'trust: true' if the file is your own"
            ) from None
        raise InputError(f"{path}: cannot be read as weights: {reason}") from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: the weights do not fit {task.reference}: {' '.join(str(error).split())[:500]}"
        ) from None


class TorchModule(Original):
    """A module and the inputs that it is exported with."""

    def __init__(self, task: Task, module: Any, example: Arrays) -> None:
        self.task = task
        self.module = module
        self.example = example
        self.by_name = _takes(module, example)
        self.program: Any = None

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``."""
        import torch

        tensors = self._tensors(inputs)
        with torch.no_grad():
            outputs = self.module(**tensors) if self.by_name else self.module(*tensors.values())
        return self._arrays(outputs)

    def _arrays(self, outputs: Any) -> Arrays:
        return named_outputs(_detached(outputs), self.task.outputs)

    def _tensors(self, inputs: Arrays) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in inputs.items()}

    def convert(self, path: Path, opset: int) -> Exported:
        """Export by torch.export; trace where the program cannot be captured, and say which branches that froze."""
        names = list(self.run(self.example))
        try:
            highest = min(opset, _highest_exported())
            self._export(path, highest, names)
            if not _is_valid(path) and highest > LOWEST_EXPORTED:
                # torch 2.13 keeps operators of a later version where its conversion to the wanted one fails.
                self._export(path, LOWEST_EXPORTED, names)
            return Exported("torch.onnx dynamo")
        except Exception as error:  # torch.onnx, torch.export and torch._dynamo raise types of their own
            reason = _first_line(error)
            custom = re.search(r"No ONNX function found for <OpOverload\(op='([^']+)'", _whole(error))
            if custom:
                raise ConversionError(
                    f"the operator {custom[1]} has no counterpart in ONNX; express it by operators of PyTorch"
                ) from None
        notes = [f"torch.export failed ({reason}); the model was traced"]
        branches = self._trace_to(path, min(opset, HIGHEST_TRACED), names)
        if branches and self.task.frozen_branches != "accept":
            raise ConversionError(
                "the control flow depends on the data, and only the branch that the example takes can be converted: "
                f"{'; '.join(branches)}; use torch.cond or torch.where, or set 'frozen_branches: accept'"
            )
        return Exported("torch.onnx trace", notes + [f"frozen branch: {branch}" for branch in branches])

    def _export(self, path: Path, opset: int, names: list[str]) -> None:
        import torch

        tensors = self._tensors(_at_least_two(self.example) if self.task.batch else self.example)
        batch = torch.export.Dim("batch", min=1)
        labels = {label for each in self.task.axes.values() for label in each.values()}
        sizes = {label: torch.export.Dim(label, min=1) for label in sorted(labels)}
        axes: dict[str, Any] = {}
        for name in tensors:
            named = {int(axis): sizes[label] for axis, label in self.task.axes.get(name, {}).items()}
            axes[name] = {**({0: batch} if self.task.batch else {}), **named}
        if not self.by_name:
            axes = dict(zip(_parameters(self.module)[: len(axes)] or axes, axes.values(), strict=True))
        dynamic = any(axes.values())
        program = torch.onnx.export(
            self.module,
            () if self.by_name else tuple(tensors.values()),
            kwargs=tensors if self.by_name else None,
            dynamo=True,
            input_names=list(tensors),
            output_names=names,
            opset_version=opset,
            dynamic_shapes=(axes if self.by_name else tuple(axes.values())) if dynamic else None,
            verbose=False,
        )
        assert program is not None  # noqa: S101 - dynamo=True always returns one
        self.program = program.exported_program
        program.save(path, external_data=_size(self.module) > self.task.external_data)

    def _trace_to(self, path: Path, opset: int, names: list[str]) -> list[str]:
        """Export by tracing; return where a tensor decided about a branch."""
        import torch

        tensors = self._tensors(self.example)
        axes = {name: {int(a): label for a, label in self.task.axes.get(name, {}).items()} for name in tensors}
        if self.task.batch:
            axes = {**{name: {0: "batch"} for name in names}, **{n: {0: "batch", **a} for n, a in axes.items()}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                torch.onnx.export(
                    self.module,
                    () if self.by_name else tuple(tensors.values()),
                    path,
                    kwargs=tensors if self.by_name else None,
                    dynamo=False,
                    input_names=list(tensors),
                    output_names=names,
                    opset_version=opset,
                    dynamic_axes=axes,
                )
            except Exception as error:
                raise ConversionError(f"torch.onnx cannot convert the model: {_first_line(error)}") from None
        warned = (entry for entry in caught if _BRANCH.search(str(entry.message)))
        return list(dict.fromkeys(f"{Path(entry.filename).name}:{entry.lineno}: {_source(entry)}" for entry in warned))

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield what each operator of the exported program gives; of a traced model, each of its modules."""
        import torch

        tensors = self._tensors(inputs)
        if self.program is None:
            yield from self._modules(tensors)
            return
        values: list[Value] = []

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                result = super().run_node(node)
                if node.op == "call_function" and isinstance(result, torch.Tensor):
                    operator = getattr(node.target, "__name__", str(node.target))
                    values.append(Value(node.name, operator, result.detach().numpy()))
                return result

        module = self.program.module()
        arguments = [tensors[name] for name in tensors]
        with torch.no_grad():
            Recorder(module).run(*arguments)
        yield from values

    def _modules(self, tensors: dict[str, Any]) -> Iterator[Value]:
        import torch

        values: list[Value] = []

        def record(name: str, kind: str) -> Any:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                if isinstance(output, torch.Tensor):
                    values.append(Value(name, kind, output.detach().numpy()))

            return hook

        leaves = [(name, part) for name, part in self.module.named_modules() if not list(part.children())]
        handles = [part.register_forward_hook(record(name, type(part).__name__)) for name, part in leaves]
        try:
            with torch.no_grad():
                self.module(**tensors) if self.by_name else self.module(*tensors.values())
        finally:
            for handle in handles:
                handle.remove()
        yield from values


def _highest_exported() -> int:
    """Return the highest opset of torch's exporter: 23 in torch 2.13, whose version converter gives up above it."""
    from torch.onnx import _constants

    return int(getattr(_constants, "ONNX_MAX_OPSET", LOWEST_EXPORTED))


def _is_valid(path: Path) -> bool:
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except Exception:  # ValidationError, and exceptions of C++
        return False
    return True


def _detached(outputs: Any) -> Any:
    import torch

    if isinstance(outputs, torch.Tensor):
        return outputs.detach().cpu().numpy()
    if isinstance(outputs, dict):  # also transformers' ModelOutput
        return {name: _detached(value) for name, value in outputs.items()}
    if isinstance(outputs, list | tuple):
        return [_detached(value) for value in outputs]
    return outputs


def _parameters(module: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, each in inspect.signature(module.forward).parameters.items() if each.kind in kinds]


def _takes(module: Any, example: Arrays) -> bool:
    """Tell whether the names of the inputs are those of the module's parameters; else they go by position."""
    return set(example) <= set(_parameters(module))


def _at_least_two(example: Arrays) -> Arrays:
    """Return the example with two samples or more: torch.export takes a batch of 1 for a constant."""
    return {name: np.concatenate([array, array]) if len(array) == 1 else array for name, array in example.items()}


def _size(module: Any) -> int:
    """Return the bytes of all weights."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*module.parameters(), *module.buffers()))


def _whole(error: BaseException) -> str:
    parts = []
    current: BaseException | None = error
    while current is not None:
        parts.append(str(current))
        current = current.__cause__ or current.__context__
    return "\n".join(parts)


def _first_line(error: BaseException) -> str:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0] if lines else 'no message'}"[:500]


def _source(entry: warnings.WarningMessage) -> str:
    import linecache

    return linecache.getline(entry.filename, entry.lineno).strip()[:120]
