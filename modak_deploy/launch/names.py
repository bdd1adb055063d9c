"""Names of modules that are the program's: its own files come before the standard library's of the same name.

What the launcher has imported before the program begins is in ``sys.modules``, where ``import statistics`` finds it
also in a program with a ``statistics.py`` of its own.
"""

import os
import sys
from importlib.machinery import PathFinder
from typing import List, Optional, Set

from . import processes

_SEPARATE = ("W", "X")
"""Options of the interpreter with a value, which may be the next argument."""


def give_back(before: Set[str]) -> None:
    """Forget modules imported since, if the program has others of these names; ``before`` has the names until then."""
    folders = _folders(processes.arguments())
    listed = set(sys.path_importer_cache)
    for name in sorted(name for name in set(sys.modules) - before if "." not in name):
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
        if origin in (None, "built-in", "frozen"):  # which no file comes before
            continue
        spec = PathFinder.find_spec(name, folders)
        if spec is not None and spec.loader is not None and spec.origin != origin:
            for module in [other for other in set(sys.modules) - before if other.split(".")[0] == name]:
                del sys.modules[module]
    for folder in set(sys.path_importer_cache) - listed:  # the program may yet write modules there
        del sys.path_importer_cache[folder]


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
