"""Start the launcher in an interpreter that is about to run a program of the job."""

import atexit
import contextlib
import importlib
import os
import sys
from types import ModuleType
from typing import Callable

from . import config as configuration
from . import lever, names, processes, session
from .frameworks import KEEPERS, MODULES
from .hooks import ImportHooks


def start(path: str) -> None:
    """Read the configuration and await the import of frameworks; nothing is imported before the program does.

    A job that is submitted from within another one may have the launchers of both on its path: one of them starts.
    """
    if session.current() is not None or processes.is_helper(processes.arguments()):
        return
    try:
        config = configuration.read(path)
    except configuration.ConfigError as error:
        with contextlib.suppress(Exception):  # standard error may be closed, or full
            sys.stderr.write("modak: the launcher is not used: {}\n".format(error))
        return
    current = session.begin(config)
    os.register_at_fork(after_in_child=current.disable)
    atexit.register(current.end)
    _set_environment(current)
    hooks = ImportHooks()
    for framework, module in MODULES.items():
        if not config.counts and framework not in KEEPERS:
            continue
        hooks.when_imported(module, current.guarded("the adapter of " + framework, _adapter(current, framework)))


def _adapter(current: session.Session, framework: str) -> Callable[[ModuleType], None]:
    def install(module: ModuleType) -> None:
        version = str(getattr(module, "__version__", "0"))
        with names.library():
            adapter = importlib.import_module(".frameworks." + framework, __package__)
        current.start_levers(framework, version, module)
        adapter.install(current, module, version)

    return install


def _set_environment(current: session.Session) -> None:
    """Set the variables of chosen levers; what the user has set stays."""
    wanted = set(current.config.levers)
    unknown = wanted - {item.name for item in lever.all_levers()} if wanted else set()
    for name in sorted(unknown):
        current.record.fallback(name, "no lever has this name")
    for item in lever.all_levers() if wanted else []:
        if item.name in wanted:
            for variable, value in item.environment().items():
                os.environ.setdefault(variable, value)
