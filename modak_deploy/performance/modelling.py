"""What the commands over the time model print."""

import math
import statistics
from collections.abc import Sequence

from modak_deploy.performance.timemodel import PHASES, Description, Fitted, Held


def report(description: Description) -> str:
    """Return what is known of a model as a table."""
    lines = ["phase    kind      records  features  error of log time on held-out workloads (of the other kind)"]
    lines += _phases(description)
    if description.gpu is not None:
        lines += ["on GPUs:", *_phases(description.gpu)]
    if description.held and description.held_with != description.measurements:
        lines += ["", f"evaluation with {description.held_with} measurements:"]
    lines += ["", *held_lines(description.held), ""] if description.held else [""]
    lines += _widths(description, f"at {description.level:.0%}")
    if description.gpu is not None:
        lines += _widths(description.gpu, "on GPUs")
    lines.append(
        f"{description.measurements} measurements {description.data[:16]}, catalogue {description.catalogue[:16]}"
    )
    return "\n".join(lines) + "\n"


def _phases(fitted: Fitted) -> list[str]:
    lines = []
    for phase, part in sorted(fitted.phases.items(), key=lambda pair: PHASES.index(pair[0])):
        other = f" ({part.error_other:.2f})" if part.error_other is not None else ""
        lines.append(f"{phase:<8} {part.kind:<9} {part.records:>7}  {len(part.features):>8}  {part.error:.2f}{other}")
    missing = [phase for phase in PHASES if phase not in fitted.phases]
    if missing:
        lines.append(f"not modelled, since fewer than three workloads were measured: {', '.join(missing)}")
    return lines


def _widths(fitted: Fitted, when: str) -> list[str]:
    ratios = ", ".join(f"{_factor(width)} ({name})" for name, width in fitted.half_width_ratio.items())
    return [
        f"{when} times lie within a factor of {_factor(fitted.half_width)} of their predictions,",
        f"and gains over the default within {ratios}",
    ]


def held_table(held: Sequence[Held]) -> list[tuple[str, ...]]:
    """Return the evaluation, its head first and the means last."""
    regrets = ("regret of modak's decision", "of the model's word", "of the default")
    head = ("held out", "units", "predicted", "MAPE", "coverage", "of gains", *regrets)
    return [head, *(_cells(item) for item in [*held, mean_of(held)])]


def held_lines(held: Sequence[Held]) -> list[str]:
    """Return the evaluation as lines of text."""
    rows = held_table(held)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _cells(held: Held) -> tuple[str, ...]:
    shares = (held.error, held.coverage, held.coverage_gain, held.regret, held.regret_model, held.regret_default)
    units = str(held.units) if held.workload != MEAN else ""
    return (
        held.workload,
        units,
        f"{held.predicted}/{held.records}",
        *("-" if s is None else f"{s:.0%}" for s in shares),
    )


MEAN = "mean"


def mean_of(held: Sequence[Held]) -> Held:
    """Return the means over workloads and lengths, of what is known."""

    def mean(values: Sequence[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return statistics.fmean(present) if present else None

    return Held(
        workload=MEAN,
        units=1,
        records=sum(h.records for h in held),
        predicted=sum(h.predicted for h in held),
        error=mean([h.error for h in held]),
        coverage=mean([h.coverage for h in held]),
        coverage_gain=mean([h.coverage_gain for h in held]),
        regret=mean([h.regret for h in held]),
        regret_model=mean([h.regret_model for h in held]),
        regret_default=mean([h.regret_default for h in held]),
    )


def _factor(half_width: float) -> str:
    return f"{math.exp(half_width):.2f}"
