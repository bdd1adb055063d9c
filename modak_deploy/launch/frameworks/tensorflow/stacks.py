"""Where operations were made: TensorFlow's messages show the calls that led there, without the launcher's own."""

import contextlib
import importlib

from ...frames import files


def leave_out_frames() -> None:
    """Have TensorFlow leave the launcher's files out of the stack that it keeps of an operation.

    AutoGraph leaves out its own by the same filters (tensorflow/python/util/tf_stack.py, 2.16 to 2.21, which are not
    documented). Each thread has a list of them, whose first one leaves out nothing.
    """
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        stacks = importlib.import_module("tensorflow.python.util.tf_stack")
        left_out = frozenset(files())
        first = type("Launcher", (stacks.SentinelFilter,), {"get_filtered_filenames": lambda self: left_out})()
        first.update()
        lists = stacks._source_filter_stacks
        lists.default_factory = lambda: [first]
        for filters in list(lists.values()):
            filters[0] = first
