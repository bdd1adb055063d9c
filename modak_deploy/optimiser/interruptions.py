"""Spot instances: what it costs and how long it takes when the provider may take the instance back.

Interruptions are a Poisson process of ``rate`` per hour, and a run that was interrupted begins again. A run of ``t``
hours is then taken back with the probability 1 - exp(-rate t), and the expected time until one run has got through is
(exp(rate t) - 1) / rate (restart without checkpoints; Daly, "A higher order estimate of the optimum checkpoint
interval for restart dumps", Future Generation Computer Systems 22, 2006, section 2, with one segment).
"""

import math

from modak_deploy.errors import InfeasibleError

_MOST = 50.0
"""Interruptions that are expected in one run, above which it never gets through: exp(50) hours are 10^17 years."""


def probability(rate: float, hours: float) -> float:
    """Return the probability that an instance is taken back within so many hours."""
    return -math.expm1(-rate * hours)


def expected(rate: float, hours: float, *, strict: bool = True) -> float:
    """Return the expected hours, those of lost runs included, until a run of so many hours has got through.

    Where that is for ever, raise InfeasibleError, or return a very large number unless ``strict``.
    """
    if rate * hours > _MOST and strict:
        raise InfeasibleError("an instance that is taken back so often would never come to the end of the job")
    return hours if rate == 0 else math.expm1(min(rate * hours, _MOST)) / rate


def check_deadline(seconds: float | None, start: float, deadline: int | None) -> None:
    """Raise InfeasibleError where a run that is lost at its end leaves no time for another one.

    ``seconds`` is what the job takes, ``start`` what each instance takes besides.
    """
    if deadline is None:
        return
    if seconds is None:
        raise InfeasibleError("no time is known, so that the deadline may not leave room for a second run")
    if 2 * (seconds + start) > deadline:
        raise InfeasibleError(
            f"a run that is interrupted at its end and a second one take {2 * (seconds + start):.0f} s, more than the "
            f"deadline of {deadline} s"
        )
