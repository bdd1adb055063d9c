"""Start the launcher in this interpreter, then run the sitecustomize.py that it hides.

Python's site module imports this file because its folder is on PYTHONPATH. It is written so that Python 2 and early
versions of Python 3 can read it: an interpreter that is too old runs its program as if this file were not there.
"""

import os
import sys


def _say(line):
    try:
        sys.stderr.write(line + "\n")
    except Exception:  # standard error may be closed, or full
        pass


def _start():
    if not os.environ.get("MODAK_LAUNCH"):
        return
    if sys.version_info < (3, 8):
        _say("modak: the launcher needs Python 3.8; the program runs as it is")
        return
    path, before = sys.path[:], set(sys.modules)
    try:
        # The standard library alone: the program may have modules of the same names, and runs them when it wants to.
        library = sys.path[:] = _library(path)
        try:
            from modak_launch import names, start

            start.start(os.environ["MODAK_LAUNCH"])
        finally:
            sys.path[:] = path
        names.give_back(before, library)
    except Exception:  # the program's own run matters more than anything here
        _say("modak: the launcher cannot start (%s); the program runs as it is" % (sys.exc_info()[1],))


def _library(path):
    """Return the entries of a path that are Python's own, and this file's; all where nobody knows which these are."""
    own = os.path.dirname(os.path.abspath(__file__))
    library = os.path.dirname(os.path.abspath(getattr(os, "__file__", "")))
    if library not in path:
        return path
    kept = [own, library]
    for entry in path:
        name = os.path.basename(entry)
        if name in ("lib-dynload", "DLLs") or (name.startswith("python") and name.endswith(".zip")):
            kept.append(entry)
    return kept


def _run_hidden():
    """Import the sitecustomize that comes after this one on sys.path, under the name that it expects."""
    import importlib

    own = os.path.dirname(os.path.abspath(__file__))
    path, module = sys.path[:], sys.modules.pop("sitecustomize", None)
    sys.path[:] = [entry for entry in path if os.path.abspath(entry or os.curdir) != own]
    kept = sys.path[:]
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        if module is not None:
            sys.modules["sitecustomize"] = module
    finally:
        # What the hidden one did to the path stays.
        sys.path[:] = path if sys.path == kept else [entry for entry in path if entry not in kept] + sys.path


_start()
_run_hidden()
