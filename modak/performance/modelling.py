"""What the commands over the time model do and print."""

import math
import statistics
from collections.abc import Sequence

from modak.catalogue.catalogue import load_catalogue
from modak.errors import InputError
from modak.performance.fitting import Fit, fit
from modak.performance.records import available_measurements
from modak.performance.timemodel import Description, Held


def fit_now() -> Fit:
    """Return the model of everything measured; InputError when a library that fitting needs is missing."""
    try:
        import skl2onnx  # noqa: F401 - needed by fit, and told here when it is missing
    except ImportError as error:
        raise InputError(f"fitting needs {error.name}: install modak with its extra 'models'") from None
    measurements = available_measurements()
    return fit(measurements.all_records(), measurements.version, load_catalogue())


def report(description: Description) -> str:
    """Return what is known of a model as a table."""
    lines = ["phase    kind      records  features  error of log time, workload held out (of the other kind)"]
    for phase, part in description.phases.items():
        other = f" ({part.error_other:.2f})" if part.error_other is not None else ""
        lines.append(f"{phase:<8} {part.kind:<9} {part.records:>7}  {len(part.features):>8}  {part.error:.2f}{other}")
    missing = [phase for phase in ("start", "compile", "steady") if phase not in description.phases]
    if missing:
        lines.append(f"not modelled, for want of three workloads: {', '.join(missing)}")
    lines.append("")
    width = max(len(held.workload) for held in description.held)
    lines.append(f"{'held out':<{width}}  records   MAPE  coverage  regret  of the default")
    lines += [_line(held, width) for held in description.held]
    lines.append(_line(_mean(description.held), width))
    lines.append("")
    lines.append(
        f"at {description.level:.0%} a time lies within a factor of {_factor(description.half_width)} of the predicted "
        "one, "
        f"the ratio of two within {_factor(description.half_width_ratio)}"
    )
    lines.append(f"measurements {description.data[:16]}, catalogue {description.catalogue[:16]}")
    return "\n".join(lines) + "\n"


def _line(held: Held, width: int) -> str:
    coverage = "-" if held.coverage is None else f"{held.coverage:.0%}"
    regret = "-" if held.regret is None else f"{held.regret:.0%}"
    default = "-" if held.regret_default is None else f"{held.regret_default:.0%}"
    return f"{held.workload:<{width}}  {held.records:>7}  {held.error:>5.0%}  {coverage:>8}  {regret:>6}  {default:>14}"


def _mean(held: Sequence[Held]) -> Held:
    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    return Held(
        workload="mean",
        records=sum(h.records for h in held),
        error=statistics.fmean(h.error for h in held),
        coverage=mean([h.coverage for h in held]),
        regret=mean([h.regret for h in held]),
        regret_default=mean([h.regret_default for h in held]),
    )


def _factor(half_width: float) -> str:
    return f"{math.exp(half_width):.2f}"
