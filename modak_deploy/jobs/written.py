"""How far a running program is, by what it writes: ``application.progress``, for programs without the launcher."""

import re
from dataclasses import dataclass, field

from modak_deploy.model.progress import pieces
from modak_deploy.util.units import clock

BYTES = 8192
"""Bytes at the end of the output that are looked at."""
_LINE = 2000
"""Characters of a line that are looked at, as on the node (progress.awk)."""
_DIGITS = 12
"""Digits of a unit's number, as on the node."""


@dataclass
class Written:
    """What the output of one job told of its units of work, at several times.

    ``pattern`` is the document's own, already checked; ``units`` is how many there are in all, where that is known.
    """

    pattern: str
    units: int | None = None
    _regex: re.Pattern[str] = field(init=False)
    _group: int = field(init=False)
    _first: tuple[float, int] | None = None
    _last: tuple[float, int] | None = None
    _starts_over: bool = False
    """The numbers begin again, as with steps of an epoch: then they do not tell how many are left."""

    def __post_init__(self) -> None:
        before, number, *after = pieces(self.pattern)
        self._regex = re.compile("".join([before, f"({number})", *after]))
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
        for line in reversed(re.split(r"[\r\n]", text)[:-1]):
            match = self._regex.search(line[:_LINE])
            if match is not None:
                digits = re.sub(r"[ ,_]", "", match.group(self._group) or "")
                if re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}", digits):
                    return int(digits)
        return None
