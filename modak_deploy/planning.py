"""From a description to its Plan: find the user's files, ask the target about itself, decide, keep what still holds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from pathlib import Path

from archspec.cpu import TARGETS

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.discovery import parse_probe
from modak_deploy.discovery.asking import ask, script_for
from modak_deploy.documents import find_sources
from modak_deploy.errors import InfeasibleError, InputError, ModakError, OptionError
from modak_deploy.jobrequest import job_request, request_of
from modak_deploy.jobs.job import specification
from modak_deploy.jobs.results import check_logs, declared_outputs
from modak_deploy.kept import Kept
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan, Source, Unplanned
from modak_deploy.model.target import Target
from modak_deploy.objects import fetch_objects, find_copies
from modak_deploy.optimiser import changes, choose_target, keep, make_plan, replan
from modak_deploy.optimiser.instances import Limits, plan_on_instance
from modak_deploy.optimiser.planner import inputs_of
from modak_deploy.optimiser.targets import Refused, instead_of, refuse, weigh
from modak_deploy.performance.paths import model_folder
from modak_deploy.performance.records import Measurements, available_measurements, load_measurements
from modak_deploy.providers.kubernetesplan import check_plan, facts_of
from modak_deploy.schedulers import registry
from modak_deploy.services.support import check_service
from modak_deploy.transport.base import Transport


def preload(locations: Sequence[str] = (), search: Sequence[Path] = ()) -> Catalogue:
    """Read all that every decision needs and this process has not read yet; return the catalogue."""
    catalogue = catalogue_for(locations, search)
    import_module(
        "modak_deploy.containers.capabilities"
    )  # which the decision imports when it first meets an image: 9 ms
    # archspec reads its targets, 10 ms, when they are first looked at.
    _ = (catalogue.levers, catalogue.image_index, catalogue.version, load_measurements(), len(TARGETS))
    return catalogue


_ANSWER = """\
@@modak:machine
x86_64
@@modak:cpuinfo
processor : 0
vendor_id : GenuineIntel
flags : fpu sse2
@@modak:glibc
glibc 2.36
@@modak:python
/usr/bin/python3
@@modak:python-runs
@@modak:packages
tensorflow-2.21.0.dist-info
@@modak:end
"""
_WORKLOAD = {"model": "mnist-cnn", "units": 12}


def rehearse() -> None:
    """Decide once for a target that does not exist, so that a process forked from this one need not warm up.

    What a decision imports, reads of the package and compiles is in memory then, which else each host of a play pays
    for anew. It reads nothing of the user's, contacts nobody, and its outcome is of no importance.
    """
    preload()
    target = Target(name="rehearsal")
    with suppress(ModakError):
        application = Application.model_validate(
            {"name": "rehearsal", "script": "x.py", "framework": {"name": "tensorflow"}, "workload": _WORKLOAD}
        )
        deployment = Deployment(application=application, target=target)
        script_for(deployment)
        facts = parse_probe(_ANSWER, target, libraries=())
        plan = make_plan(deployment, facts, [], now=datetime.fromtimestamp(0, UTC))
        check_options(job_request(plan))
        plan.model_dump(mode="json", by_alias=True)


def _unheard(_text: str) -> None:
    """Hear nothing."""


def plan_deployment(
    deployment: Deployment,
    transport: Transport | Callable[[Target], Transport],
    *,
    search: Sequence[Path],
    now: datetime,
    default_python: str | None = None,
    inquiries: Mapping[str, Callable[[], str]] | None = None,
    limits: Limits | None = None,
    refusal: Callable[[InfeasibleError | OptionError], str] = str,
    notice: Callable[[str], None] = _unheard,
    deployed: bool = False,
) -> Plan:
    """Return the Plan of a deployment, on the best of its targets; relative paths are looked for in ``search``.

    ``transport`` leads to the target, or gives the way to each of several. ``default_python`` is the application's
    Python on this machine, where it is a target and names none. ``inquiries`` holds the answers, by the names of the
    targets, of those that are being asked already; a target of type cloud or kubernetes is not asked. ``limits`` are
    what is known of instance types. ``refusal`` gives the reason of a target that cannot do it, beside another one that
    can. ``notice`` hears of objects that are fetched. ``deployed`` says that only what was deployed is looked for: then
    no object is fetched of which there is a copy, and none for instances that are created, whose tag is not the Plan's.
    TargetError when one of the targets cannot be asked.
    """
    if deployed and all(target.is_created for target in deployment.targets):
        without = deployment.application.model_copy(update={"objects": None})
        deployment = deployment.model_copy(update={"application": without})
    (find_copies if deployed else fetch_objects)(deployment.application.objects, notice)
    local_sources = [source.source for source in find_sources(deployment.application, search)]
    outcomes: list[Plan | Refused] = []
    measurements = cache(available_measurements)  # opened once for all targets, after the first has answered
    for target in deployment.targets:
        alone = deployment.on(target)
        inquiry = (inquiries or {}).get(target.name)
        if inquiry is None and target.is_asked:
            way = transport(target) if callable(transport) else transport
            inquiry = partial(ask, way, script_for(alone, default_python), target.name)
        try:
            outcomes.append(_planned(alone, local_sources, inquiry, search, now, limits, measurements))
        except (InfeasibleError, OptionError) as error:
            if len(deployment.targets) == 1:
                raise
            outcomes.append(Refused(target, refusal(error), inputs_of(alone, local_sources)))
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
    before: Plan | Unplanned,
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
    if target.name in (before.target.name, *(other.target.name for other in before.other_targets)):
        raise InputError(f"two targets have the name '{target.name}'", hint="give each its own")
    alone = Deployment(application=before.application, target=target, request=before.request, job=before.job)
    try:
        answer = None
        if target.is_asked:
            answer = partial(ask, transport, script_for(alone, default_python), target.name)
        plan = _planned(alone, before.sources, answer, search, now)
    except (InfeasibleError, OptionError) as error:
        return refuse(before, Refused(target, str(error), inputs_of(alone, before.sources)))
    return weigh(before, plan) if isinstance(before, Plan) else instead_of(before, plan)


def _planned(
    deployment: Deployment,
    sources: Sequence[Source],
    answer: Callable[[], str] | None,
    search: Sequence[Path],
    now: datetime,
    limits: Limits | None = None,
    measurements: Callable[[], Measurements] = available_measurements,
) -> Plan:
    """Return the Plan of a deployment on its one target, which ``answer`` asks about itself or waits for.

    Without it the target is a cluster of Kubernetes as it is described, or an instance that does not exist yet, whose
    type is chosen as well.
    """
    catalogue = preload(deployment.request.catalogue, search)
    if answer is None and deployment.target.kind.has_login:
        plan = plan_on_instance(
            deployment,
            sources,
            now=now,
            catalogue=catalogue,
            measurements=measurements(),
            model=model_folder(),
            limits=limits,
        )
        _check(plan)
        return plan
    if answer is None:
        facts = facts_of(deployment.target)
    else:
        facts = parse_probe(answer(), deployment.target, libraries=_libraries(catalogue))
    plan = make_plan(
        deployment,
        facts,
        sources,
        now=now,
        catalogue=catalogue,
        measurements=measurements(),
        model=model_folder(),
    )
    _check(plan)
    if deployment.target.kind.runs_manifests:
        check_plan(plan, job_request(plan))
    return plan


def _check(plan: Plan) -> None:
    """Raise OptionError for what the target or its scheduler does not support, InputError for files no job can have."""
    if plan.application.service is not None:
        check_service(plan)
    request = request_of(plan)
    declared_outputs(request)
    check_logs(request)
    check_options(request)


def check_options(request: JobRequest) -> None:
    """Raise OptionError for an option of a job that its scheduler does not support."""
    scheduler = registry.get(request.scheduler)
    job = specification(request, f"/runs/{request.name}")
    scheduler.directives(job)
    scheduler.launch(job, request.argv)


def _libraries(catalogue: Catalogue) -> set[str]:
    """Return the sonames that any lever asks for: no other one can matter to a decision."""
    levers = catalogue.levers.values()
    return {name for lever in levers for name in (*lever.run.preload, lever.when.library) if name is not None}


def lacks_digest(plan: Plan) -> bool:
    """Return whether the image that was chosen is still to be looked up; see ``with_image``."""
    return plan.chosen.image is not None and plan.chosen.image.digest is None


def with_image(plan: Plan, transport: Transport, *, search: Sequence[Path]) -> Plan:
    """Return the Plan with the digest of its image, which its registry is asked for; see modak_deploy.images.pin.

    Where an image turns out not to be available the optimiser decides again without it, by the same rules: what takes
    its place is not slower than the default either. The reason is raised where the user asked for that image, or where
    nothing can do without it.
    """
    if not lacks_digest(plan):
        return plan
    from modak_deploy.catalogue.recipe import recipes_of
    from modak_deploy.containers.location import locate
    from modak_deploy.images.pin import Unavailable, registry_of, resolved
    from modak_deploy.images.store import ImageStore

    catalogue = catalogue_for(plan.request.catalogue, search)
    store = ImageStore(transport, locate(transport, plan.target))
    unavailable: dict[str, str] = {}
    while True:
        try:
            return changes.with_image(plan, resolved(plan, catalogue.images, store, recipes_of(catalogue)))
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
                plan = replan(
                    plan,
                    catalogue=catalogue,
                    measurements=available_measurements(),
                    model=model_folder(),
                    unavailable=unavailable,
                )
            except InfeasibleError:
                raise missing.error() from None


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
        f"the file {changed}, and the document does not describe its target '{kept.plan.target.name}'",
        source=kept.path,
        hint="describe it there as 'target' or in 'other_targets'",
    )
