"""Names of modules that are the program's: its own files come before the standard library's of the same name.

What the launcher has imported before the program begins is in ``sys.modules``, where ``import statistics`` finds it
also in a program with a ``statistics.py`` of its own.
"""

import contextlib
import os
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Dict, Iterator, List, Optional, Sequence, Set

from . import processes

_SEPARATE = ("W", "X")
"""Options of the interpreter with a value, which may be the next argument."""
LEAVES = ("fractions", "statistics")
"""Modules of the standard library that are given back in any case: the program may add a folder with others later.

Few programs import them before they do, no other module keeps a state in them, and a second copy costs 2 ms.
"""
_path: List[str] = []
"""Where Python looks for the launcher's modules and the standard library's; empty where nobody knows."""
_own: Dict[str, ModuleType] = {}
"""Modules of the standard library that the launcher has imported, and the program has others of their names."""


def give_back(before: Set[str], path: Sequence[str] = ()) -> None:
    """Forget modules imported since, if the program has others of these names; ``before`` has the names until then.

    ``path`` is where they were looked for.
    """
    _path[:] = path or _path
    folders = _folders(processes.arguments())
    listed = set(sys.path_importer_cache)
    own = __name__.partition(".")[0]  # of which another job's launcher may be on the path as well
    for name in sorted(name for name in set(sys.modules) - before - {own} if "." not in name):
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
        if origin in (None, "built-in", "frozen"):  # which no file comes before
            continue
        spec = None if name in LEAVES else PathFinder.find_spec(name, folders)
        if name in LEAVES or (spec is not None and spec.loader is not None and spec.origin != origin):
            for module in [other for other in set(sys.modules) - before if other.split(".")[0] == name]:
                _own[module] = sys.modules.pop(module)
    for folder in set(sys.path_importer_cache) - listed:  # the program may yet write modules there
        del sys.path_importer_cache[folder]


@contextlib.contextmanager
def library() -> Iterator[None]:
    """Have imports within find the standard library's modules, whatever modules the program has of these names."""
    if not _path:
        yield
        return
    path = sys.path[:]
    theirs = {name: sys.modules.pop(name) for name in {*_hiding(), *_own}.intersection(sys.modules)}
    sys.modules.update(_own)
    before = set(sys.modules).difference(_own)
    sys.path[:] = [*_path, *(folder for folder in path if folder not in _path)]
    try:
        yield
    finally:
        sys.path[:] = path
        for name in _own:
            sys.modules.pop(name, None)
        give_back(before)
        sys.modules.update(theirs)


def _hiding() -> List[str]:
    """Return the names of the program's modules, where their top one has a name of the standard library's."""
    standard = getattr(sys, "stdlib_module_names", frozenset(_own))  # Python 3.10 and later
    tops = {name for name in standard if name in sys.modules and _is_elsewhere(sys.modules[name])}
    return [name for name in sys.modules if name.partition(".")[0] in tops]


def _is_elsewhere(module: ModuleType) -> bool:
    """Tell whether a module comes from a file that is not among the standard library's."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in (None, "built-in", "frozen"):
        return False
    folder, file = os.path.split(str(origin))
    return (os.path.dirname(folder) if file.startswith("__init__.") else folder) not in _path


def _folders(command: List[str]) -> List[str]:
    """Return where Python looks for the program's modules before it looks into the standard library."""
    library = os.path.dirname(os.path.abspath(getattr(os, "__file__", "")))
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [entry for entry in [_first(command), *sys.path] if entry is not None]
    if library in folders:
        folders = folders[: folders.index(library)]
    return [folder for folder in folders if os.path.abspath(folder) != own]


def _first(command: List[str]) -> Optional[str]:
    """Return what the interpreter puts first on ``sys.path``, after the site module: a script's folder, for example.

    None where it puts nothing there.
    """
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return None
    arguments = iter(command[1:])
    for argument in arguments:
        if not argument.startswith("-") or argument == "-":
            return _of_script(argument)
        if argument == "--check-hash-based-pycs":
            next(arguments, None)
        elif not argument.startswith("--"):
            for position, letter in enumerate(argument[1:], 1):
                if letter in "cm":
                    return _here()
                if letter in _SEPARATE:
                    if position == len(argument) - 1:
                        next(arguments, None)
                    break
    return _here()


def _of_script(path: str) -> Optional[str]:
    if path == "-":
        return _here()
    real = os.path.realpath(path)
    return real if os.path.isdir(real) or real.endswith((".zip", ".pyz", ".whl")) else os.path.dirname(real)


def _here() -> Optional[str]:
    """Return the current folder; None where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None
