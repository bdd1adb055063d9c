"""The Plan as plain text for people, at most 100 columns wide."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from modak_deploy.launch.estimate import DARED
from modak_deploy.model.plan import Candidate, Launch, Plan, Prediction
from modak_deploy.optimiser.targettable import instance_text, target_lines
from modak_deploy.util.text import plural, significant

WIDTH = 100
_NARROWEST = 8
"""Columns that names have at least, however many digits a figure has."""
_MOST = 8
"""Runners-up, and reasons of rejections, shown where not all are asked for; the Plan has all of them."""


def render(plan: Plan, *, explain: bool = False) -> str:
    """Return the decision as a table: what was chosen, its time, the runners-up, what was rejected, and why.

    With ``explain`` all candidates are shown, what each rests on, and what each lever is expected to bring.
    """
    lines = [*_head(plan), "", *_candidates(plan, explain)]
    if explain:
        lines += [*_levers(plan), *_evidence(plan)]
    lines += target_lines(plan)
    if plan.other_targets:
        lines += ["", "Other targets:", *_elsewhere(plan)]
    if plan.rejected:
        lines += ["", "Not considered further:", *_rejected(plan, explain)]
    if explain:
        lines += ["", "Decided by:", *_versions(plan)]
    return "\n".join(lines) + "\n"


def _head(plan: Plan) -> list[str]:
    rests = f"{plan.prediction.basis}: {plan.prediction.evidence}".removesuffix(": ")
    chosen = plan.chosen
    lines = [
        f"Plan for {plan.name} on {plan.target.name} ({_queue(plan)})",
        *_labelled("chosen", chosen.name),
        *_labelled("why", plan.reason),
        *_labelled("predicted", _predicted(plan.prediction)),
        *_labelled("rests on", rests),
        *_labelled("reserved", _reserved(plan)),
    ]
    if plan.instance is not None:
        lines += _labelled("instance", instance_text(plan.instance))
    if chosen.image is not None:
        lines += _labelled("image", f"{chosen.image.reference}, run by {chosen.runtime}")
    if chosen.environment:
        lines += _labelled("sets", "  ".join(f"{k}={v}" for k, v in sorted(chosen.environment.items())))
    if chosen.preload:
        lines += _labelled("preloads", " ".join(chosen.preload))
    if plan.chosen.launch is not None and plan.chosen.launch.candidates:
        launch = plan.chosen.launch
        tried = ", ".join(f"{name} (if kept)" if name in launch.kept else name for name in launch.candidates)
        cost = "whatever it costs" if plan.surveys else f"losing at most {launch.share:.0%} of its time on it"
        lines += _labelled("surveys" if plan.surveys else "tries", f"while the program runs, {cost}: {tried}")
        if launch.expected:
            lines += _labelled("expects", _expected(launch))
    return [*lines, *_restart(plan)]


def _expected(launch: Launch) -> str:
    """What other workloads gained by levers that are made ready at a cost."""
    gains = ", ".join(f"{gain:.2f} by {name}" for name, gain in sorted(launch.expected.items()))
    return f"what three of four others gained: {gains}; where that pays for one, trying it may lose {DARED:.0%}"


def _queue(plan: Plan) -> str:
    return plan.target.type if plan.target.kind.runs_manifests else plan.scheduler


def _restart(plan: Plan) -> list[str]:
    """What is tried before the run, and what that costs."""
    if plan.restart is None:
        return []
    names = ", ".join(candidate.name for candidate in plan.restart.candidates[1:])
    share = "" if plan.restart.share is None else f", and no more than {plan.restart.share:.3g} of the job"
    return _labelled("tries first", f"each in a new process, for at most {plan.restart.budget} s{share}: {names}")


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _labelled(label: str, text: str) -> list[str]:
    return _wrapped(text, f"  {label:<10} ", " " * 13)


def _predicted(prediction: Prediction) -> str:
    if prediction.seconds is None:
        if prediction.gain is None:
            return "unknown"
        gain = prediction.gain
        return (
            f"{gain.ratio:.2f} ({gain.low:.2f} to {gain.high:.2f}) times as fast as the default; no seconds are known"
        )
    text = f"{significant(prediction.seconds, 4)} s"
    if prediction.low is not None and prediction.high is not None:
        text += f" ({significant(prediction.low)} to {significant(prediction.high)} s)"
    if prediction.start is not None and prediction.compile is not None and prediction.steady is not None:
        text += (
            f" = start {significant(prediction.start)} s + compile {significant(prediction.compile)} s"
            f" + {prediction.units} x {significant(prediction.steady)} s"
        )
    return text


def _reserved(plan: Plan) -> str:
    r = plan.chosen.resources
    parts = [plural(r.nodes, "node"), plural(r.ranks, "rank")]
    if r.threads:
        parts.append(f"{plural(r.threads, 'core')} per rank")
    if r.gpus:
        parts.append(f"{plural(r.gpus, 'GPU')} per node")
    return ", ".join(parts)


def _ranked(plan: Plan) -> list[tuple[Candidate, Prediction]]:
    return [(plan.chosen, plan.prediction), *((r.candidate, r.prediction) for r in plan.alternatives)]


def _candidates(plan: Plan, explain: bool) -> list[str]:
    ranked = _ranked(plan)
    shown = ranked if explain else ranked[: _MOST + 1]
    rows = [("candidate", "seconds", "interval", "gain", "basis")]
    rows += [_row(("* " if n == 0 else "  ") + c.name, p, plan.default) for n, (c, p) in enumerate(shown)]
    lines = _aligned(rows)
    if len(ranked) > len(shown):
        untimed = sum(p.seconds is None for _, p in ranked[len(shown) :])
        lines.append(
            f"  and {len(ranked) - len(shown)} more" + (f", {untimed} of them without a time" if untimed else "")
        )
    return lines


def _row(name: str, prediction: Prediction, default: str) -> tuple[str, str, str, str, str]:
    seconds, gain = prediction.seconds, prediction.gain
    basis = "possible" if prediction.basis == "none" and not name.startswith("*") else prediction.basis
    faster = f"{gain.ratio:.2f}" if gain else "1.00" if name[2:] == default else "-"
    if seconds is None:
        interval = f"x {gain.low:.2f} to {gain.high:.2f}" if gain else "-"
        return (name, "-", interval, faster, basis)
    interval = _span(prediction.low, prediction.high)
    return (name, significant(seconds), interval, faster, basis)


def _span(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{significant(low)} to {significant(high)}"


def _aligned(rows: Sequence[tuple[str, str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    widths[0] = min(widths[0], max(WIDTH - sum(widths[1:]) - 2 * 4, _NARROWEST))
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells[:3], widths[1:4], strict=True)]
        tail = "  ".join([*aligned, cells[3]])
        if len(name) > widths[0]:
            lines += _wrapped(name[2:], name[:2], "    ")
            name = ""
        lines.append(f"{name:<{widths[0]}}  {tail}".rstrip())
    return lines


def _elsewhere(plan: Plan) -> Iterator[str]:
    for other in plan.other_targets:
        name = f", {other.candidate.name}" if other.candidate else ""
        yield from _wrapped(f"{other.target.name}{name}: {other.reason}", "  ", "      ")


def _levers(plan: Plan) -> list[str]:
    """What each lever brings alone, from the candidates that have one more lever than another in the same place."""
    predictions = {(_where(c), frozenset(c.levers)): (c.name, p) for c, p in _ranked(plan)}
    ratios: dict[str, list[str]] = {}
    for (location, levers), (name, prediction) in predictions.items():
        for lever in sorted(levers):
            without = predictions.get((location, levers - {lever}))
            if without is not None and (ratio := _ratio(without[1], prediction)) is not None:
                ratios.setdefault(lever, []).append(f"{ratio:.2f} in {name}")
    if not ratios:
        return []
    lines = ["", "What a lever brings (time without it over time with it):"]
    for lever, cases in sorted(ratios.items()):
        lines += _wrapped(f"{lever}: {'; '.join(cases)}", "  ", "      ")
    return lines


def _where(candidate: Candidate) -> tuple[str, str, str]:
    return (candidate.runtime, candidate.image.reference if candidate.image else "", candidate.engine or "")


def _ratio(without: Prediction, with_it: Prediction) -> float | None:
    if without.seconds is not None and with_it.seconds is not None:
        return without.seconds / with_it.seconds
    if with_it.gain is not None:
        return with_it.gain.ratio / (without.gain.ratio if without.gain else 1.0)
    return None


def _evidence(plan: Plan) -> Iterator[str]:
    yield ""
    yield "What the predictions rest on:"
    for candidate, prediction in _ranked(plan):
        yield from _wrapped(f"{candidate.name}: {_predicted(prediction)}; {prediction.evidence}", "  ", "      ")


def _rejected(plan: Plan, explain: bool) -> Iterable[str]:
    reasons: dict[str, list[str]] = {}
    for rejected in plan.rejected:
        reasons.setdefault(rejected.reason, []).append(rejected.name)
    shown = list(reasons.items()) if explain else list(reasons.items())[:_MOST]
    for reason, names in shown:
        if len(names) == 1:
            yield from _wrapped(f"{names[0]}: {reason}", "  ", "      ")
            continue
        yield from _wrapped(f"{len(names)} candidates: {reason}", "  ", "      ")
        if explain:
            yield from _wrapped(", ".join(names), "      ", "      ")
    if more := len(reasons) - len(shown):
        yield f"  and {plural(more, 'more reason')}; 'modak plan --explain' shows all"


def _versions(plan: Plan) -> Iterator[str]:
    versions = plan.versions
    yield f"  modak {versions.modak}, catalogue {versions.catalogue[:16]}, measurements {versions.measurements[:16]}"
    if versions.model:
        yield f"  model {versions.model[:16]}"
