"""How far a running program is, by what it writes: ``application.progress``, for programs without the launcher."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field

from modak_deploy.model.progress import pieces
from modak_deploy.util.units import clock

BYTES = 8192
"""Bytes at the end of the output that are looked at."""
_LINE = 2000
"""Characters of a line that are looked at, as on the node (progress.awk)."""
_DIGITS = 12
"""Digits of a unit's number, as on the node."""
_MATCH_LIMIT = 2.0
"""Seconds for the expression."""
# A process of its own: Python's re takes time that grows exponentially with the text for some expressions, such as
# '(?:a+)+ ([0-9]+)', holds its lock meanwhile and knows no limit. The job may write anything.
_SEARCH = """
import json, re, sys
expression, group, lines = json.load(sys.stdin)
compiled = re.compile(expression)
for line in lines:
    match = compiled.search(line)
    digits = re.sub("[ ,_]", "", match[group] or "") if match else ""
    if re.fullmatch("[0-9]{1,%d}", digits):
        print(digits)
        break
"""


@dataclass
class Written:
    """What the output of one job told of its units of work, at several times.

    ``pattern`` is the document's own, already checked; ``units`` is how many there are in all, where that is known.
    """

    pattern: str
    units: int | None = None
    _expression: str = field(init=False)
    _group: int = field(init=False)
    _first: tuple[float, int] | None = None
    _last: tuple[float, int] | None = None
    _starts_over: bool = False
    """The numbers begin again, as with steps of an epoch: then they do not tell how many are left."""
    _gave_up: bool = False
    """The expression takes too long for this output."""

    def __post_init__(self) -> None:
        before, number, *after = pieces(self.pattern)
        self._expression = "".join([before, f"({number})", *after])
        self._group = re.compile(before).groups + 1

    def observe(self, text: str, now: float) -> str | None:
        """Take the end of the output at a time, in seconds; return how far the job is, None while no rate is known."""
        unit = self._newest(text)
        if unit is None:
            return None
        if self._last is not None and unit < self._last[1]:
            self._starts_over, self._first = True, None
        if self._first is None:
            self._first = (now, unit)
        self._last = (now, unit)
        began, first = self._first
        if unit <= first or now <= began:
            return None
        rate = (unit - first) / (now - began)
        if self.units is None or self._starts_over or unit > self.units:
            return f"unit {unit}, {rate:.3g} a second"
        left = clock(round((self.units - unit) / rate))
        return f"unit {unit} of {self.units}, {rate:.3g} a second, about {left} to go"

    def _newest(self, text: str) -> int | None:
        """Return the unit's number in the last whole line that has one; the job may have written anything."""
        lines = [line[:_LINE] for line in reversed(re.split(r"[\r\n]", text)[:-1])]
        if self._gave_up or not lines:
            return None
        try:
            matched = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _SEARCH % _DIGITS],
                input=json.dumps([self._expression, self._group, lines]),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=_MATCH_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._gave_up = True
            return None
        except OSError:  # no memory or no process left: the job goes on without
            return None
        return int(matched.stdout) if matched.stdout else None
