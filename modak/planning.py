"""From a description to its Plan: find the user's files, ask the target about itself, decide, keep what still holds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from modak.catalogue.catalogue import Catalogue
from modak.catalogue.site import catalogue_for
from modak.discovery import parse_probe, probe_script
from modak.documents import find_sources
from modak.errors import InfeasibleError, InputError, OptionError, TargetError
from modak.jobs.job import specification
from modak.kept import Kept
from modak.model.base import RuntimeName
from modak.model.deployment import Deployment
from modak.model.plan import Elsewhere, Plan, Source, Unplanned
from modak.model.request import Request
from modak.model.target import Facts, Target
from modak.optimiser import choose_target, keep, make_plan
from modak.optimiser.planner import inputs_of
from modak.optimiser.targets import Refused, weigh
from modak.performance.places import model_folder
from modak.performance.records import available_measurements
from modak.schedulers import registry
from modak.transport.base import Transport


def ask(transport: Transport, script: str, name: str) -> str:
    """Return what the discovery's ``script`` prints on the target that is called ``name``.

    TargetError when the target cannot be reached or its shell does not come to the script's end.
    """
    done = transport.run(script, timeout=120)
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or "nothing"
        raise TargetError(f"the target {name} could not be asked about itself; its shell said: {words}")
    return done.stdout


def discover(
    deployment: Deployment,
    transport: Transport,
    *,
    default_python: str | None = None,
    libraries: Collection[str] | None = None,
) -> Facts:
    """Return what the deployment's target tells about itself, in one round trip.

    ``default_python`` is the application's Python where the target does not name one. Of the target's shared
    libraries only those among ``libraries`` are told, all of them when it is None. TargetError when the target cannot
    be reached or does not answer as it should.
    """
    target = deployment.target
    default = None if default_python is None else _python3(default_python)
    script = probe_script(
        target, deployment.application, default_python=default, runtimes=_runtimes(deployment.request)
    )
    return parse_probe(ask(transport, script, target.name), target, libraries=libraries)


def _runtimes(request: Request) -> list[RuntimeName]:
    exact = [request.configuration.runtime] if request.configuration else []
    return [*(request.runtimes or []), *exact]


def _python3(python: str) -> str:
    """Return an environment's ``python3``: its ``python`` is the same, and may not make another Plan."""
    sibling = Path(python).with_name("python3")
    return str(sibling) if sibling.exists() and sibling.resolve() == Path(python).resolve() else python


def plan_deployment(
    deployment: Deployment,
    transport: Transport | Callable[[Target], Transport],
    *,
    search: Sequence[Path],
    now: datetime,
    default_python: str | None = None,
) -> Plan:
    """Return the Plan of a deployment, on the best of its targets; relative paths are looked for in ``search``.

    ``transport`` leads to the target, or gives the way to each of several. ``default_python`` is the application's
    Python on this machine, where it is a target and names none. TargetError when one of the targets cannot be asked.
    """
    found = [source.source for source in find_sources(deployment.application, search)]
    outcomes: list[Plan | Refused] = []
    for target in deployment.targets:
        way = transport(target) if callable(transport) else transport
        alone = deployment.on(target)
        try:
            outcomes.append(_planned(alone, found, way, search, now, default_python))
        except (InfeasibleError, OptionError) as error:
            if len(deployment.targets) == 1:
                raise
            outcomes.append(Refused(target, str(error), inputs_of(alone, found)))
    return choose_target(outcomes)


def unplanned(deployment: Deployment, *, search: Sequence[Path], reason: str) -> Unplanned:
    """Return what was asked of the target of a deployment, which cannot do it for this reason."""
    sources = [source.source for source in find_sources(deployment.application, search)]
    return Unplanned(
        application=deployment.application,
        target=deployment.target,
        request=deployment.request,
        job=deployment.job,
        sources=sources,
        inputs=inputs_of(deployment, sources),
        reason=reason,
    )


def reconsider(
    known: Plan | Unplanned,
    target: Target,
    transport: Transport,
    *,
    search: Sequence[Path],
    now: datetime,
    default_python: str | None = None,
) -> Plan | Unplanned:
    """Return the better of a Plan and the Plan of the same application on another target; each tells of the other.

    Where no target can do it, what was asked comes back with both reasons. InputError when another target of this name
    is known already.
    """
    if target.name in (known.target.name, *(other.target.name for other in known.other_targets)):
        raise InputError(f"two targets have the name '{target.name}': give each its own")
    alone = Deployment(application=known.application, target=target, request=known.request, job=known.job)
    try:
        plan = _planned(alone, known.sources, transport, search, now, default_python)
    except (InfeasibleError, OptionError) as error:
        elsewhere = Elsewhere(target=target, reason=str(error), inputs=inputs_of(alone, known.sources))
        return known.model_copy(update={"other_targets": [*known.other_targets, elsewhere]})
    if isinstance(known, Plan):
        return weigh(known, plan)
    first = Elsewhere(target=known.target, reason=known.reason, inputs=known.inputs)
    return plan.model_copy(update={"other_targets": [first, *known.other_targets]})


def _planned(
    deployment: Deployment,
    sources: Sequence[Source],
    transport: Transport,
    search: Sequence[Path],
    now: datetime,
    default_python: str | None,
) -> Plan:
    """Return the Plan of a deployment on its one target."""
    catalogue = catalogue_for(deployment.request.catalogue, search)
    python = default_python if deployment.target.host is None else None
    facts = discover(deployment, transport, default_python=python, libraries=_libraries(catalogue))
    plan = make_plan(
        deployment,
        facts,
        sources,
        now=now,
        catalogue=catalogue,
        measurements=available_measurements(),
        model=model_folder(),
    )
    check_options(plan)
    return plan


def check_options(plan: Plan) -> None:
    """Raise OptionError for an option of the job that the Plan's scheduler does not support."""
    scheduler = registry.get(plan.scheduler)
    job = specification(plan, f"/runs/{plan.name}")
    scheduler.directives(job)
    scheduler.launch(job, plan.chosen.argv)


def _libraries(catalogue: Catalogue) -> set[str]:
    """Return the sonames that any lever asks for: no other one can matter to a decision."""
    levers = catalogue.levers.values()
    return {name for lever in levers for name in (lever.preload, lever.when.library) if name is not None}


def with_image(plan: Plan, transport: Transport, *, search: Sequence[Path]) -> Plan:
    """Return the Plan with the digest of its image, which its registry is asked for; see modak.images.pin.

    Where an image turns out not to be available the optimiser decides again without it, by the same rules: what takes
    its place is not slower than the default either. The reason is raised where the user asked for that image, or where
    nothing can do without it.
    """
    if plan.chosen.image is None or plan.chosen.image.digest is not None:
        return plan
    from modak.catalogue.recipe import recipes_of
    from modak.images.pin import Unavailable, pinned, registry_of
    from modak.images.store import ImageStore
    from modak.runtimes.place import locate

    catalogue = catalogue_for(plan.request.catalogue, search)
    store = ImageStore(transport, locate(transport, plan.target))
    unavailable: dict[str, str] = {}
    while True:
        try:
            return pinned(plan, catalogue.images, store, recipes_of(catalogue))
        except Unavailable as missing:
            name = missing.image.entry
            if plan.application.image is not None or plan.request.configuration is not None or name is None:
                raise missing.error() from None
            unavailable[name] = str(missing)
            if missing.is_silence and name in catalogue.images:
                registry = registry_of(catalogue.images[name], catalogue.images)
                others = (e.name for e in catalogue.images.values() if registry_of(e, catalogue.images) == registry)
                unavailable |= dict.fromkeys(others, str(missing))
            try:
                plan = _replanned(plan, catalogue, unavailable)
            except InfeasibleError:
                raise missing.error() from None


def _replanned(plan: Plan, catalogue: Catalogue, unavailable: Mapping[str, str]) -> Plan:
    """Return the optimiser's new decision on what a Plan was asked, without some images."""
    asked = Deployment(application=plan.application, target=plan.target, request=plan.request, job=plan.job)
    fresh = make_plan(
        asked,
        plan.facts,
        plan.sources,
        now=datetime.strptime(plan.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
        catalogue=catalogue,
        measurements=available_measurements(),
        model=model_folder(),
        unavailable=unavailable,
    )
    return fresh.model_copy(update={"other_targets": plan.other_targets})


def still_holds(plan: Plan, kept: Kept | None) -> Plan:
    """Return the kept Plan where the same was asked and its choice is still possible, else the new one.

    One that was changed after modak wrote it is not used.
    """
    return plan if kept is None or kept.own is False else keep(plan, kept.plan, own=kept.own is True)


def check_deployed(kept: Kept, deployment: Deployment) -> Plan:
    """Return the Plan that was deployed; InputError where another may have written it, for a target nobody describes.

    Its target is where a job is cancelled and its folder removed, so that it must come from this controller or from
    the document.
    """
    if kept.own is True or kept.plan.target in deployment.targets:
        return kept.plan
    changed = "was changed after modak wrote it" if kept.own is False else "was not written by this controller"
    raise InputError(
        f"{kept.path}: the file {changed}, and the document does not describe its target '{kept.plan.target.name}'; "
        "describe it there as 'target' or in 'other_targets'"
    )
