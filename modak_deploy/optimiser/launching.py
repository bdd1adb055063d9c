"""What travels into the application's interpreter: levers that are on there, and levers to try while it runs."""

from collections.abc import Sequence
from typing import Literal

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.effects import applied
from modak_deploy.engines.registry import of_framework, package_of
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Launch, Prediction, Resources
from modak_deploy.optimiser.candidates import Enumerator
from modak_deploy.optimiser.conditions import no_launch, satisfies
from modak_deploy.optimiser.earlier import Earlier
from modak_deploy.optimiser.expecting import Usual
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.util.text import plural

LIVE = ("live", "either")
"""Ways of being switched on that can be taken while the program runs."""
COUNTED = frozenset({"step", "batch", "call"})
"""Units of a workload that are what the launcher counts."""


COMPILING = "graph-compiler"
"""The group of levers that compile or convert what they make faster."""
SHARE = 0.03
"""Largest part of a first job's time that its trials may lose."""
MOST_JOBS = 4
"""Jobs, this one among them, whose shares trials may use together."""


def launcher_counts(deployment: Deployment, location: Location) -> bool:
    """Return whether the launcher counts the units of the program at ``location``."""
    engine = of_framework(location.framework)
    kind = deployment.application.type in ("ai_training", "ai_inference")
    if engine is None or not kind or not engine.counts_units or no_launch(location) is not None:
        return False
    version = location.version_of(package_of(engine.name))
    return version is None or satisfies(version, engine.counted_versions)


def counts_units(framework: str | None) -> bool:
    """Return whether the launcher counts units of work of programs of a framework."""
    engine = of_framework(framework)
    return engine is not None and engine.counts_units


def launch_of(
    deployment: Deployment,
    enumerator: Enumerator,
    levers: LeverSet,
    resources: Resources,
    earlier: Earlier,
    usual: Usual,
    *,
    counts: bool = False,
) -> Launch | None:
    """Return what the launcher is told at the enumerator's place; None where it has nothing to do and does not travel.

    It also comes along to count, with ``counts`` and wherever it could try something: how far a job is, when it will
    end, and what its work consists of is worth knowing when everything has been tried. It comes along without counting
    where it can keep for later jobs what the framework compiles. Nothing is tried where the
    request names the one configuration to run or requires a lever that could be tried; with several ranks, levers are
    tried in training only, where the framework can have all of them switch at the same unit. Where a lever that could
    be tried is on, because it was measured to be fast, trials go on from there with what no job has tried; a survey is
    of all levers.
    """
    catalogue, location = enumerator.catalogue, enumerator.location
    chosen = [catalogue.levers[name] for name in levers]
    on = [lever.name for lever in chosen if lever.run.launch is not None]
    session = applied(lever.all_effects for lever in chosen).session
    request, workload = deployment.request, deployment.application.workload
    is_service = deployment.application.service is not None  # its units never end, and its clients wait for each
    engine = of_framework(location.framework) if launcher_counts(deployment, location) and not is_service else None
    could_try = (
        engine is not None
        and engine.tries_live
        and (resources.ranks == 1 or (engine.tries_with_ranks and deployment.application.type == "ai_training"))
        and (resources.ranks == 1 or not request.surveys)
    )
    tries = (
        could_try
        and request.tries_live
        and request.configuration is None
        and not any(catalogue.levers[name].run.launch in LIVE for name in request.require_levers)
    )
    compiled = engine is not None and engine.keeps_compiled and resources.ranks == 1 and request.trials != "none"
    counts = (counts and not is_service) or (
        could_try and request.trials != "none" and deployment.application.progress is None
    )
    candidates = _candidates(enumerator, levers, earlier, resources.ranks, every=request.surveys) if tries else []
    mode: Literal["live", "survey"] = "survey" if request.surveys else "live"
    dear = _compiled(candidates, catalogue) if mode == "live" else []
    counts = counts or bool(candidates or on or session)
    if not counts and not compiled:
        return None
    return Launch(
        counts=counts,
        levers=on,
        compiled=compiled,
        session=session,
        trials=mode if candidates else "none",
        numerics=request.numerics,
        candidates=candidates,
        kept=[name for name in candidates if name in earlier.tried & earlier.kept] if mode == "live" else [],
        relaxed=[name for name in candidates if catalogue.levers[name].numerics == "relaxed"],
        gain=min(max(1.0, earlier.gain), 1e6) if on else 1.0,
        share=SHARE * min(1 + earlier.jobs, MOST_JOBS) if candidates else SHARE,
        expected=usual.at_least(dear) if earlier.jobs else {},
        foreseen=usual.typical(candidates) if mode == "live" else {},
        units=workload.units if workload.unit in COUNTED and workload.units > 1 else None,
    )


def _compiled(names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Return those of the levers that take their time to be made ready."""
    return [name for name in names if catalogue.levers[name].group == COMPILING]


def _candidates(
    enumerator: Enumerator, levers: LeverSet, earlier: Earlier, ranks: int, *, every: bool = False
) -> list[str]:
    """Return the levers that may be tried: those that no job has tried, and that may take the place of a chosen one.

    What a job may have kept is among them, though it was tried, where units were faster with it than with what is
    chosen: it was not chosen for what it takes to be made ready. With ``every``, for a survey, those that are on or
    that a job has tried may be as well, and none that nothing switches off again.

    What is on from the start for other reasons than the launcher's cannot be switched off for them. What restarts try
    as well is tried only where the launcher can try anything: not with another backend of Keras.
    """
    catalogue, faults = enumerator.catalogue, enumerator.faults
    chosen = [catalogue.levers[name] for name in levers]
    permitted = [
        lever
        for lever in catalogue.levers.values()
        if lever.run.launch in LIVE
        and lever.name not in faults
        and not (every and lever.irreversible)
        and (every or (lever.name not in levers and lever.name not in earlier.tried - earlier.kept))
        and (ranks == 1 or lever.ranks)
        and not any(lever.excludes(other) for other in chosen if other.run.launch != "live")
    ]
    permitted.sort(key=lambda lever: lever.name in earlier.last)
    return [lever.name for lever in permitted] if any(lever.run.launch == "live" for lever in permitted) else []


def will_try(launch: Launch | None) -> list[str]:
    """Return the clause of the reason that says what is tried; nothing of a survey, which has words of its own."""
    if launch is None or launch.trials != "live":
        return []
    clauses = []
    if count := len(launch.candidates) - len(launch.kept):
        clauses.append(f"{plural(count, 'lever')} that may be faster will be tried while it runs")
    if launch.kept:
        clauses.append(f"{' and '.join(launch.kept)} will be tried where an earlier job has kept what makes that ready")
    return clauses


def with_trials(option: Option, prediction: Prediction, chosen: Option, launch: Launch | None) -> Prediction:
    """Return the prediction with the word that an option of which nothing is known will be tried while the job runs."""
    if prediction.basis != "none" or launch is None or option.with_levers(()) != chosen.with_levers(()):
        return prediction
    added = set(option.levers) - set(chosen.levers)
    if not added or not added <= set(launch.candidates) or not set(chosen.levers) <= set(option.levers):
        return prediction
    return prediction.model_copy(update={"evidence": f"{prediction.evidence}; it will be tried while the job runs"})
