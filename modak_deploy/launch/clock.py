"""The machine's clocks as they were when the launcher started.

A program, or a test that it runs, may put others in their place for all modules: one that stands still, that fails, or
that counts how often it is asked. freezegun (1.5) does so wherever a module has the function itself as an attribute,
and these are not.
"""

import functools
import time
from typing import Callable

now: Callable[[], float] = functools.partial(time.perf_counter)
"""Return seconds by which times are compared."""
wall: Callable[[], float] = functools.partial(time.time)
"""Return seconds since 1970, as the times of files are."""
sleep: Callable[[float], None] = functools.partial(time.sleep)
