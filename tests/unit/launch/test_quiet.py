"""Warnings that the program has shown once are not shown again after the launcher's own work."""

import subprocess
import sys

PROGRAM = """
import warnings
from modak_deploy.launch.quiet import unwarned
for number in range(3):
    warnings.warn("the program's")
    with unwarned():
        with unwarned():
            warnings.warn("the launcher's")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
        warnings.warn("the launcher's")
    warnings.simplefilter("default") if number == 1 else None
"""


def test_a_warning_is_shown_as_often_as_alone():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert lines == ["<string>:5: UserWarning: the program's"] * 2, "once, and once more with other filters"
