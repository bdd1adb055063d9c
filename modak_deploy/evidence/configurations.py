"""The configurations of a benchmark: which candidates of a Plan are measured, and the command line of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.containers.location import folder
from modak_deploy.containers.run import wrap
from modak_deploy.errors import InputError
from modak_deploy.evidence.driver.runs import HERE, WORKSPACE
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import launching
from modak_deploy.jobs.job import specification
from modak_deploy.jobs.script import merged_environment
from modak_deploy.launch.config import VERSION
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Candidate, Launch, Plan
from modak_deploy.model.request import ExactConfiguration, Request
from modak_deploy.optimiser import make_plan
from modak_deploy.shell import join
from modak_deploy.util.text import did_you_mean

MOST = 24
"""Configurations that ``all`` measures: the default, and those that are expected to be the fastest."""


@dataclass(frozen=True)
class Wanted:
    """Which configurations are measured beside the default and modak's choice."""

    names: Sequence[str] = ()
    """Candidates by their names, as ``modak plan --explain`` shows them."""
    levers: Sequence[str] = ()
    """Each is added to the default."""
    images: Sequence[str] = ()
    """Each runs the default's levers that it can have."""
    everything: bool = False


def plans_of(plan: Plan, wanted: Wanted, catalogue: Catalogue) -> list[Plan]:
    """Return a Plan for each configuration, the default first; InputError for a name that is none."""
    candidates = {ranked.candidate.name: ranked.candidate for ranked in plan.alternatives}
    candidates[plan.chosen.name] = plan.chosen
    default = candidates.get(plan.default)
    if default is None:
        raise InputError(f"the default '{plan.default}' is not possible on {plan.target.name}: nothing to compare with")
    chosen = [default, plan.chosen]
    for name in wanted.names:
        if name not in candidates:
            hint = did_you_mean(name, candidates) or "'modak plan --explain' lists them"
            raise InputError(f"--configuration: '{name}' is not a candidate", hint=hint)
        chosen.append(candidates[name])
    if wanted.everything:
        chosen += list(candidates.values())[:MOST]
    configurations = {candidate.name: _exact(plan, _of_candidate(candidate), catalogue) for candidate in chosen}
    for lever in wanted.levers:
        if lever not in catalogue.levers:
            hint = did_you_mean(lever, catalogue.levers) or "'modak catalogue list levers' shows them"
            raise InputError(f"--lever: '{lever}' is not in the catalogue", hint=hint)
        group = catalogue.levers[lever].group
        kept = [name for name in default.levers if catalogue.levers[name].group != group]
        exact = _of_candidate(default).model_copy(update={"levers": [*kept, lever]})
        made = _exact(plan, exact, catalogue)
        configurations.setdefault(made.chosen.name, made)
    for image in wanted.images:
        exact = ExactConfiguration(runtime=_runtime(plan), image=image, levers=default.levers)
        made = _exact(plan, exact, catalogue)
        configurations.setdefault(made.chosen.name, made)
    return list(configurations.values())


def _runtime(plan: Plan) -> str:
    names = sorted(plan.facts.runtimes, key=lambda name: not _for_clusters(name))
    if not names:
        raise InputError(f"--image: {plan.target.name} has no container runtime")
    return names[0]


def _for_clusters(name: str) -> bool:
    from modak_deploy.containers import registry as runtimes

    return runtimes.get(name).for_clusters


def _of_candidate(candidate: Candidate) -> ExactConfiguration:
    image = candidate.image
    return ExactConfiguration(
        runtime=candidate.runtime,
        image=None if image is None else image.entry or image.reference,
        engine=candidate.engine,
        levers=candidate.levers,
    )


def _exact(plan: Plan, exact: ExactConfiguration, catalogue: Catalogue) -> Plan:
    """Return the optimiser's Plan of exactly this configuration."""
    asked = plan.request
    request = Request(
        numerics=asked.numerics, trials="none", catalogue=asked.catalogue, budget=asked.budget, configuration=exact
    )
    deployment = Deployment(application=plan.application, target=plan.target, request=request, job=plan.job)
    return make_plan(deployment, plan.facts, plan.sources, now=plan.created_at, catalogue=catalogue)


def entry(plan: Plan, *, counts: bool) -> dict[str, Any]:
    """Return what the driver is told of a configuration; with ``counts`` the launcher counts its units."""
    request = job_request(plan)
    if counts:
        launch = request.launch or Launch()
        request = replace(request, launch=Launch(levers=launch.levers, session=launch.session))
    chosen = plan.chosen
    argv = launching.launched(request, chosen.argv, HERE)
    if chosen.runtime != "native":
        argv = wrap(
            request,
            chosen.argv,
            directory=HERE,
            images=folder(plan.target, WORKSPACE),
            starter=partial(launching.starter, request),
        )
    environment = dict(merged_environment(request, specification(request, HERE)))
    if chosen.preload and chosen.runtime == "native":
        environment["LD_PRELOAD"] = ":".join(chosen.preload)
    launch_config = (
        None
        if request.launch is None
        else {"version": VERSION, "record": "record", **launching.switched_on(request.launch)}
    )
    return {
        "name": chosen.name,
        "command": join(argv),
        "environment": environment,
        "launch": launch_config,
    }


def check_supported(plan: Plan) -> None:
    """Raise InputError for what a benchmark cannot do."""
    if plan.chosen.resources.ranks > 1:
        raise InputError("several ranks are not supported by a benchmark", key="job.ranks")
    if plan.job.scratch is not None:
        raise InputError("not supported by a benchmark", key="job.scratch")
    if plan.application.secret_environment:
        raise InputError("not supported by a benchmark", key="application.secret_environment")
