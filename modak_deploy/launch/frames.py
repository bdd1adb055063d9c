"""Functions between the program and a library that warnings do not take for the caller, and tracebacks do not show.

``warnings.warn(..., stacklevel=2)`` is about the line that calls a function: it says where that is, is shown once for
each such line, and DeprecationWarning only for lines of the script. Frames of the import system are left out there,
which are told by the names of their files (``_is_internal_frame`` in warnings.py, Python 3.5 to 3.14).
"""

import functools
import os
import sys
from typing import Any, Callable, Iterator, TypeVar, cast

from .handlers import raised

_MARK = "left-out-as-importlib._bootstrap"
"""A folder in the names of files: ``coverage`` (7.17) finds a module's lines by the last part, and fails without."""
_OWN = os.path.dirname(__file__) + os.sep
_PACKAGE = __name__.rpartition(".")[0] + "."
Function = TypeVar("Function", bound=Callable[..., Any])


def unseen(function: Function) -> Function:
    """Return the function, which warnings leave out from now on."""
    code = function.__code__
    function.__code__ = code.replace(co_filename=_marked(code.co_filename))
    return function


def _marked(file: str) -> str:
    folder, name = os.path.split(file)
    return os.path.join(folder, _MARK, name)


def cleaned(function: Function) -> Function:
    """Return what does a function that stands in the place of one of a library's, and that neither shows."""
    unseen(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            take_out(error)
            raise

    return cast(Function, unseen(call))


def files() -> Iterator[str]:
    """Yield the names that the code of the launcher's modules has, of those that are imported, for its files."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE):
            file = str(module.__file__)
            yield from (file, _marked(file))


def take_out(error: BaseException) -> None:
    """Take the launcher's frames out of the traceback of an error of the program's, which is to be raised again.

    A bare ``raise`` then shows none of them; until Python 3.10, which has kept the traceback, that one's alone. By its
    frames is told what a handler for a signal has raised, and those stay.
    """
    if raised(error) is not None:
        return
    before, trace = None, error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            before = trace
        elif before is None:
            BaseException.with_traceback(error, trace.tb_next)  # its class may refuse that attributes are set
        else:
            before.tb_next = trace.tb_next
        trace = trace.tb_next
