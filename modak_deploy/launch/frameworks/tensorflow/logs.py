"""What TensorFlow's library in C++ logs, kept from the program's output while the launcher has it do something."""

import contextlib
import ctypes
import glob
import itertools
import mmap
import os
import re
from typing import Any, Iterator, List

from ...files import open_file

WARNING = 1
_LEVEL = re.compile(rb"_ZN4absl12lts_\d{8}(11MinLogLevelEv|14SetMinLogLevelENS0_18LogSeverityAtLeastE)\0")
"""Names of Abseil's functions, which have its version in them; TensorFlow before 2.19 has loggers of its own."""


@contextlib.contextmanager
def uninformed(tensorflow: Any) -> Iterator[None]:
    """Have nothing logged that is of no more weight than information.

    ``TF_CPP_MIN_LOG_LEVEL`` sets the same when TensorFlow is loaded, and nothing of TensorFlow's in Python does later.
    """
    functions = _functions(str(tensorflow.sysconfig.get_lib()))
    before = functions[0]() if functions else WARNING
    if before < WARNING:
        functions[1](WARNING)
    try:
        yield
    finally:
        if before < WARNING:
            functions[1](before)


def _functions(folder: str) -> List[Any]:
    """Return what tells the least level that is logged, and what sets it; nothing where the library has them not."""
    for path in glob.glob(os.path.join(glob.escape(folder), "libtensorflow_framework.so*")):
        with open_file(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            matches = itertools.islice(_LEVEL.finditer(content), 2)  # among the first of its many bytes
            names = sorted(match.group(0)[:-1].decode() for match in matches)
        if len(names) == 2:
            library = ctypes.CDLL(path)
            return [getattr(library, name) for name in names]
    return []
