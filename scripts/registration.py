"""Enter the built-in extensions in modak_deploy/builtin.py and pyproject.toml; --check tells whether they are current.

A built-in scheduler, type of target, container runtime, lever effect, engine or provider is a class with a name of its
own in the package of its kind. The names that are entered already keep their order, and new ones follow.
"""

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from modak_deploy.catalogue.effects import Effect
from modak_deploy.containers.base import Runtime
from modak_deploy.engines.base import Engine
from modak_deploy.extensions import ENGINES, LEVER_EFFECTS, PROVIDERS, RUNTIMES, SCHEDULERS, TARGETS, Registry
from modak_deploy.model.kinds import TargetKind
from modak_deploy.providers.base import Provider
from modak_deploy.schedulers.base import Scheduler

TOP = Path(__file__).resolve().parent.parent
TABLES = TOP / "modak_deploy" / "builtin.py"
PROJECT = TOP / "pyproject.toml"


@dataclass(frozen=True)
class Kind:
    """A kind of extension, the table of its built-in ones, and the packages and modules where these are."""

    table: str
    registry: Registry
    base: type
    homes: tuple[str, ...]


KINDS = (
    Kind("SCHEDULERS", SCHEDULERS, Scheduler, ("modak_deploy.schedulers",)),
    Kind("TARGETS", TARGETS, TargetKind, ("modak_deploy.model.kinds",)),
    Kind("RUNTIMES", RUNTIMES, Runtime, ("modak_deploy.containers",)),
    Kind("LEVER_EFFECTS", LEVER_EFFECTS, Effect, ("modak_deploy.catalogue.effects",)),
    Kind("ENGINES", ENGINES, Engine, ("modak_deploy.engines", "modak_deploy.onnx.engines")),
    Kind("PROVIDERS", PROVIDERS, Provider, ("modak_deploy.providers",)),
)


def modules(name: str) -> Iterator[ModuleType]:
    """Return the module of that name, and those of the package that it may be."""
    home = import_module(name)
    yield home
    for found in pkgutil.walk_packages(getattr(home, "__path__", ()), f"{name}."):
        yield import_module(found.name)


def entries(kind: Kind) -> dict[str, str]:
    """Return ``module:class`` of each class of that kind that can be used, by its name."""
    classes: dict[str, str] = {}
    for module in (module for home in kind.homes for module in modules(home)):
        for own in vars(module).values():
            if not inspect.isclass(own) or own.__module__ != module.__name__ or not issubclass(own, kind.base):
                continue  # imported from elsewhere, or something else
            if "name" in vars(own) and not inspect.isabstract(own):
                entry = f"{own.__module__}:{own.__qualname__}"
                if classes.setdefault(own.name, entry) != entry:
                    raise SystemExit(f"{entry}: the {kind.registry.noun} '{own.name}' is {classes[own.name]}")
    order = [name for name in kind.registry.builtin if name in classes]
    return {name: classes[name] for name in (*order, *(name for name in sorted(classes) if name not in order))}


def written() -> dict[Path, str]:
    """Return the text of both files as it should be."""
    tables, project = TABLES.read_text(encoding="utf-8"), PROJECT.read_text(encoding="utf-8")
    for kind in KINDS:
        classes = entries(kind)
        rows = "".join(f'    "{name}": "{entry}",\n' for name, entry in classes.items())
        tables = replaced(tables, rf"(?m)^({kind.table}: .* = {{\n)(?:    .*\n)*", rows)
        rows = "".join(f'{name} = "{entry}"\n' for name, entry in classes.items())
        section = re.escape(f'[project.entry-points."{kind.registry.group}"]')
        project = replaced(project, rf"(?m)^({section}\n)(?:[a-z].*\n)*", rows)
    return {TABLES: tables, PROJECT: project}


def replaced(text: str, pattern: str, rows: str) -> str:
    """Return the text with other rows below the head that is the pattern's group."""
    text, times = re.subn(pattern, lambda match: f"{match.group(1)}{rows}", text)
    if times != 1:
        raise SystemExit(f"{pattern}: {times} times, where one is expected")
    return text


def main() -> int:
    """Write both files, or say which are not current."""
    old = {path: text for path, text in written().items() if path.read_text(encoding="utf-8") != text}
    for path, text in old.items():
        if "--check" in sys.argv:
            print(f"{path.relative_to(TOP)} is not current; run 'make generate'", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return int("--check" in sys.argv and bool(old))


if __name__ == "__main__":
    sys.exit(main())
