"""The engines by name."""

from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from modak_deploy.engines.base import Engine
from modak_deploy.errors import InputError
from modak_deploy.extensions import ENGINES


@cache
def get(name: str) -> Engine:
    """Return the engine; InputError where there is none of that name, or its distribution is faulty."""
    engine: Engine = ENGINES.make(name, Engine)
    return engine


@cache
def of_framework(name: str | None) -> Engine | None:
    """Return the engine of a framework's name in any case, or of what pip calls it; None where there is none."""
    if name is None or name.lower() in ENGINES:
        return None if name is None else get(name.lower())
    for other in ENGINES.names():
        with suppress(InputError):  # another distribution's, and faulty: it is named where it is used
            if get(other).distribution == name.lower():
                return get(other)
    return None


@cache
def package_of(name: str) -> str:
    """Return the Python package of a framework; its own name for one that modak has no class for."""
    engine = of_framework(name)
    return (engine.package if engine is not None else None) or name.lower()


def module_of(engine: Engine) -> str:
    """Return the Python module that has the engine."""
    return engine.module or engine.package or engine.name


def distribution_of(name: str) -> str:
    """Return what pip calls an engine."""
    engine = get(name)
    return engine.distribution or engine.package or engine.name


def is_installed(engine: Engine) -> bool:
    """Return whether this interpreter can import the engine."""
    return find_spec(module_of(engine)) is not None


def with_converter() -> list[str]:
    """Return the names of the engines whose models can be converted."""
    return [name for name in ENGINES.names() if get(name).converter is not None]


def running_onnx() -> list[str]:
    """Return the names of the engines that run ONNX files."""
    return [name for name in ENGINES.names() if get(name).runs_onnx]


def converter_of(engine: Engine, base: type) -> Any:
    """Return what converts the engine's models, an object of a subclass of ``base``; InputError where it has none."""
    if engine.converter is None:
        raise InputError(f"models of {engine.name} cannot be converted; use a model of {', '.join(with_converter())}")
    module, _, attribute = engine.converter.partition(":")
    try:
        loaded_class = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"the converter of {engine.name}, {engine.converter}, cannot be loaded: {error}") from None
    if not (isinstance(loaded_class, type) and issubclass(loaded_class, base)):
        where = f"{base.__module__}.{base.__name__}"
        raise InputError(f"the converter of {engine.name}, {engine.converter}, is not a subclass of {where}")
    return loaded_class()
