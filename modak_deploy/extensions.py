"""What other distributions add to modak by entry points: schedulers, types of targets, runtimes, engines and more.

The built-in ones are registered in ``pyproject.toml`` in the same way, and stand in ``builtin.py`` as well: a checkout
that is not installed has no entry points, and it takes several milliseconds to read the metadata of everything that is
installed. So that is done only for a name that is not built in, and where all names are listed. ``make generate``
writes both from the classes.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from modak_deploy import builtin as tables
from modak_deploy.errors import InputError
from modak_deploy.util.text import either

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_RESERVED = frozenset({"any", "native", "none"})
"""Names that stand for something else where a scheduler, a type of target or a runtime is named."""


class Registry:
    """Classes by name: the built-in ones, and those of an entry point group."""

    def __init__(
        self, group: str, noun: str, builtin: Mapping[str, str], reserved: Collection[str] = tables.TARGETS
    ) -> None:
        """``noun`` is what one of them is called; ``builtin`` gives each name its ``module:class``.

        No other distribution can use a name that is ``reserved``.
        """
        self.group = group
        self.noun = noun
        self.builtin = builtin
        self._reserved = _RESERVED.union(reserved)

    def __contains__(self, name: object) -> bool:
        """Return whether there is one of that name."""
        return isinstance(name, str) and (name in self.builtin or name in self.installed)

    def names(self) -> list[str]:
        """Return all names, the built-in ones first."""
        return [*self.builtin, *sorted(self.installed)]

    def load(self, name: str, base: type) -> Any:
        """Return the class of that name, a subclass of ``base``; InputError names the distribution that is at fault."""
        if name in self.builtin:
            module, _, attribute = self.builtin[name].partition(":")
            return getattr(import_module(module), attribute)
        if name not in self.installed:
            raise InputError(f"{self.noun} '{name}' not found; use {either(self.names())}")
        try:
            loaded = self.installed[name].load()
        except (Exception, SystemExit) as error:  # whatever the other distribution's module raises
            raise self._fault(name, f"{type(error).__name__}: {error}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise self._fault(name, f"not a subclass of {base.__module__}.{base.__name__}")
        if missing := _missing(loaded, base):
            raise self._fault(name, f"it has no {', '.join(missing)}")
        if (own := getattr(loaded, "name")) != name:  # noqa: B009 - a type has no such attribute for mypy
            raise self._fault(name, f"its name is {own!r}")
        return loaded

    def make(self, name: str, base: type) -> Any:
        """Return an object of the class of that name, made without arguments; see ``load`` for what is raised."""
        loaded = self.load(name, base)
        try:
            return loaded()
        except (Exception, SystemExit) as error:
            if name in self.builtin:
                raise
            raise self._fault(name, f"{type(error).__name__}: {error}") from error

    def _fault(self, name: str, problem: str) -> InputError:
        entry = self.installed[name]
        start = f"the distribution {_distribution(entry)} cannot provide the {self.noun} '{name}': {entry.value}: "
        return InputError(f"{start}{problem}", hint="update or uninstall it")

    @cached_property
    def installed(self) -> "Mapping[str, EntryPoint]":
        """Entry points of other distributions; InputError where two of them, or one and modak, use the same name."""
        from importlib.metadata import entry_points

        return self._checked(entry_points(group=self.group))

    def _checked(self, entries: "Iterable[EntryPoint]") -> "Mapping[str, EntryPoint]":
        entries_by_name: dict[str, EntryPoint] = {}
        for entry in entries:
            owner = _distribution(entry)
            if owner in ("modak-deploy", "modak"):  # its name was modak before
                continue  # of an installation that may be older than this code
            what = f"the distribution {owner} registers the {self.noun} '{entry.name}'"
            if not _NAME.fullmatch(entry.name) or entry.name in self._reserved:
                hint = f"a name has lower-case letters, digits and '_', and is not {either(sorted(self._reserved))}"
                raise InputError(f"{what}, which is not a valid name; {hint}")
            if entry.name in self.builtin:
                raise InputError(f"{what}, which is a name of modak's own; uninstall {owner}")
            if entry.name in entries_by_name:
                other = _distribution(entries_by_name[entry.name])
                raise InputError(f"{what}, and so does {other}; uninstall one of them")
            entries_by_name[entry.name] = entry
        return entries_by_name


def _missing(loaded: type, base: type) -> list[str]:
    """Return the abstract methods, and the attributes that ``base`` declares without a value, that are not there."""
    declared = {name for parent in base.__mro__ for name in getattr(parent, "__annotations__", ())}
    attributes = {name for name in {"name", *declared} if not hasattr(loaded, name)}
    return sorted(attributes | set(getattr(loaded, "__abstractmethods__", ())))


def _distribution(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist is not None else entry.value


SCHEDULERS = Registry("modak.schedulers", "scheduler", tables.SCHEDULERS)
TARGETS = Registry("modak.targets", "type of target", tables.TARGETS, reserved=tables.SCHEDULERS)
RUNTIMES = Registry("modak.containers", "container runtime", tables.RUNTIMES)
LEVER_EFFECTS = Registry("modak.lever_effects", "lever effect", tables.LEVER_EFFECTS)
ENGINES = Registry("modak.engines", "engine", tables.ENGINES)
PROVIDERS = Registry("modak.providers", "provider", tables.PROVIDERS)
