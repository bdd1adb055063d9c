"""Functions between the program and a library that warnings do not take for the caller.

``warnings.warn(..., stacklevel=2)`` is about the line that calls a function: it says where that is, is shown once for
each such line, and DeprecationWarning only for lines of the script. Frames of the import system are left out there,
which are told by the names of their files (``_is_internal_frame`` in warnings.py, Python 3.5 to 3.14).
"""

from typing import Any, Callable, TypeVar

_MARK = " (left out by warnings as importlib._bootstrap is)"
Function = TypeVar("Function", bound=Callable[..., Any])


def unseen(function: Function) -> Function:
    """Return the function, which warnings leave out from now on."""
    code = function.__code__
    function.__code__ = code.replace(co_filename=code.co_filename + _MARK)
    return function
