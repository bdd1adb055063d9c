"""What each framework provides: a trained model that runs, that can be traced, and that is written as ONNX."""

import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.task import Task


class ConversionError(InputError):
    """The converter of a framework cannot convert the model."""


@dataclass
class Exported:
    """How a model was written."""

    exporter: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Value:
    """One intermediate result: the name and the type of its operator, in the order of their execution."""

    name: str
    operator: str
    array: Array

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'"


class Original(ABC):
    """A trained model in its own framework."""

    @abstractmethod
    def run(self, inputs: Arrays) -> Arrays:
        """Return the outputs for one batch by name."""

    @abstractmethod
    def convert(self, path: Path, opset: int) -> Exported:
        """Write the model as ONNX with operators of ``opset`` or the closest that the converter has below it."""

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield intermediate results; none where the framework does not show them."""
        yield from ()


class Framework(ABC):
    """Loads models of one framework."""

    name: ClassVar[str]
    packages: ClassVar[Mapping[str, str]]
    """pip requirement by module, the framework itself first."""
    extra: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]]
    """Distributions whose versions belong to the provenance."""
    pickles: ClassVar[tuple[str, ...]] = ()
    """Suffixes of files that may run code when they are read."""

    @abstractmethod
    def load(self, task: Task, example: Arrays) -> Original:
        """Return the trained model; InputError says why it cannot be read."""


def check_trust(task: Task, pickles: Sequence[str], alternative: str) -> None:
    """Raise InputError where the file may run code when it is read and the user does not trust it."""
    if task.file is not None and not task.trust and Path(task.file).suffix in pickles:
        raise InputError(
            f"{task.file}: reading a {Path(task.file).suffix} file may run any code that its author put in; "
            f"use {alternative}, or set 'trust: true' if the file is your own"
        )


@contextmanager
def user_code(task: Task) -> Iterator[None]:
    """Let modules of the request's ``code`` be imported, and of nowhere else beyond what is installed."""
    path = Path(task.code) if task.code else None
    before = list(sys.path)
    if path is not None and not path.exists():
        raise InputError(f"{path}: file or folder not found")
    if path is not None and path.is_dir():
        sys.path.insert(0, str(path))
    elif path is not None:
        _import_file(path)
    try:
        yield
    finally:
        sys.path[:] = before


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # of the user's code
        raise InputError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from None


def resolve(task: Task) -> Any:
    """Return what ``class`` of the request names."""
    module, _, attribute = (task.reference or "").partition(":")
    try:
        target: Any = import_module(module)
    except ImportError as error:
        hint = "" if task.code else "; 'code' names the folder or the file with your module"
        raise InputError(f"class: the module '{module}' cannot be imported: {error}{hint}") from None
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise InputError(f"class: the module '{module}' has no '{attribute}'")
        target = getattr(target, part)
    return target


def installed_sources(task: Task, without: Collection[str]) -> list[Path]:
    """Return the imported modules of the package that has the model's class, where it is not in the task's ``code``.

    They are the user's own where the package is installed in place; ``without`` are the framework's packages.
    """
    package = (task.reference or "").partition(":")[0].partition(".")[0]
    if not package or package in without:
        return []
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    files = {Path(file) for module in modules if (file := getattr(module, "__file__", None)) is not None}
    code = Path(task.code) if task.code else None
    return sorted(file for file in files if file.is_file() and (code is None or not file.is_relative_to(code)))


def build(task: Task) -> Any:
    """Return what ``class`` makes of ``arguments``."""
    maker = resolve(task)
    try:
        return maker(**task.arguments)
    except TypeError as error:
        raise InputError(f"class: {task.reference} cannot be called with the given 'arguments': {error}") from None


def named_outputs(outputs: Any, names: Sequence[str] = (), *, by_key: bool = False) -> Arrays:
    """Return the outputs of a model, whatever structure they have, as arrays by name and in the converter's order.

    ``by_key`` is for frameworks that order what is in a dictionary by its keys, whatever order it was made in.
    """
    flat = list(_flatten(outputs, "", by_key))
    given = list(names) or [name or "output" for name, _ in flat]
    if len(given) != len(flat):
        raise InputError(f"outputs: {len(given)} names are given, and the model has {len(flat)} outputs")
    result: Arrays = {}
    for name, (_, array) in zip(given, flat, strict=True):
        unique = name if name not in result else f"{name}_{len(result)}"
        result[unique] = np.asarray(array)
    return result


def _flatten(value: Any, name: str, by_key: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value) if by_key else value:
            yield from _flatten(value[key], f"{name}_{key}" if name else str(key), by_key)
    elif isinstance(value, list | tuple):
        names = getattr(value, "_fields", None)
        for number, item in enumerate(value):
            inner = names[number] if names else f"output_{number}" if not name else f"{name}_{number}"
            yield from _flatten(item, inner, by_key)
    elif value is not None:
        yield name, value
