"""The Plan as plain text for people, at most 100 columns wide."""

import textwrap
from collections.abc import Sequence

from modak.model.plan import Plan, Prediction

WIDTH = 100
_MOST = 8
"""Runners-up shown; the Plan has all of them."""


def render(plan: Plan, *, explain: bool = False) -> str:
    """Return the decision as a table: what was chosen, its time, the runners-up, what was rejected, and why.

    ``explain`` shows every candidate, and every rejected one by its name.
    """
    rests = f"{plan.prediction.basis}: {plan.prediction.evidence}".removesuffix(": ")
    lines = [
        f"Plan for {plan.name} on {plan.target.name} ({plan.scheduler})",
        *_wrapped("chosen", plan.chosen.name),
        *_wrapped("why", plan.reason),
        *_wrapped("predicted", _predicted(plan.prediction)),
        *_wrapped("rests on", rests),
        *_wrapped("reserved", _reserved(plan)),
    ]
    if plan.chosen.environment:
        lines += _wrapped("sets", "  ".join(f"{k}={v}" for k, v in sorted(plan.chosen.environment.items())))
    lines += ["", *_candidates(plan, len(plan.alternatives) if explain else _MOST)]
    if plan.rejected:
        lines += ["", "Not considered further:"]
        for reason, names in _by_reason(plan).items():
            which = ", ".join(names) if explain or len(names) == 1 else f"{len(names)} candidates"
            text = f"{which}: {reason}"
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _by_reason(plan: Plan) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for rejected in plan.rejected:
        reasons.setdefault(rejected.reason, []).append(rejected.name)
    return reasons


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"  {label:<10} ", subsequent_indent=" " * 13, break_on_hyphens=False
    )


def _predicted(prediction: Prediction) -> str:
    if prediction.seconds is None:
        return "no time can be told"
    text = f"{prediction.seconds:.4g} s"
    if prediction.low is not None and prediction.high is not None:
        text += f" ({prediction.low:.3g} to {prediction.high:.3g} s)"
    if prediction.start is not None and prediction.compile is not None and prediction.steady is not None:
        text += (
            f" = start {prediction.start:.3g} s + compile {prediction.compile:.3g} s"
            f" + {prediction.units} x {prediction.steady:.3g} s"
        )
    return text


def _reserved(plan: Plan) -> str:
    r = plan.chosen.resources
    parts = [_count(r.nodes, "node"), _count(r.ranks, "rank")]
    if r.threads:
        parts.append(f"{_count(r.threads, 'core')} per rank")
    if r.gpus:
        parts.append(f"{_count(r.gpus, 'GPU')} per node")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _candidates(plan: Plan, most: int) -> list[str]:
    ranked = [(plan.chosen.name, plan.prediction), *((r.candidate.name, r.prediction) for r in plan.alternatives)]
    shown = ranked[: most + 1]
    rows = [("candidate", "seconds", "interval", "gain", "basis")]
    rows += [_row(("* " if number == 0 else "  ") + name, p, plan.default) for number, (name, p) in enumerate(shown)]
    lines = _aligned(rows)
    if len(ranked) > len(shown):
        untimed = sum(p.seconds is None for _, p in ranked[len(shown) :])
        lines.append(
            f"  and {len(ranked) - len(shown)} more" + (f", {untimed} of them without a time" if untimed else "")
        )
    return lines


def _row(name: str, prediction: Prediction, default: str) -> tuple[str, str, str, str, str]:
    seconds, gain = prediction.seconds, prediction.gain
    faster = f"{gain.ratio:.2f}" if gain else "1.00" if name[2:] == default else "-"
    if seconds is None:
        interval = f"x {gain.low:.2f} to {gain.high:.2f}" if gain else "-"
        return (name, "-", interval, faster, prediction.basis)
    interval = f"{prediction.low:.3g} to {prediction.high:.3g}" if prediction.low is not None else "-"
    return (name, f"{seconds:.3g}", interval, faster, prediction.basis)


def _aligned(rows: Sequence[tuple[str, str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 2 * 4)
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells[:3], widths[1:4], strict=True)]
        tail = "  ".join([*aligned, cells[3]])
        if len(name) > widths[0]:
            lines.append(name)
            name = ""
        lines.append(f"{name:<{widths[0]}}  {tail}".rstrip())
    return lines
