"""make_plan: from what was asked and found to the Plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import modak_deploy
from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.catalogue.effects import applied
from modak_deploy.catalogue.names import accelerator_name
from modak_deploy.errors import InfeasibleError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Ratio
from modak_deploy.model.nodes import node_of, node_of_plan, partition_of
from modak_deploy.model.plan import (
    WRITTEN_TIME,
    Plan,
    Ranked,
    Rejected,
    Resources,
    Source,
    Versions,
    sha256_of,
)
from modak_deploy.model.target import Facts, Node
from modak_deploy.optimiser.building import Builder, Outcome
from modak_deploy.optimiser.candidates import Choice, Enumerator, check_names
from modak_deploy.optimiser.carrying import Carrier
from modak_deploy.optimiser.decision import Decision, decide, doubt_of_limits
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.knowledge import Knowledge
from modak_deploy.optimiser.launching import will_try, with_trials
from modak_deploy.optimiser.locations import Locations, locations_of
from modak_deploy.optimiser.modelled import Modelled, usable_model
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.optimiser.resources import cores_of, reserved_cores, resources_of, scheduler_of, with_threads
from modak_deploy.optimiser.restarting import Ranking, advice, possible, restart_of
from modak_deploy.optimiser.scale import Series, scale_of
from modak_deploy.optimiser.surveying import survey_remarks
from modak_deploy.performance.matching import Work, bf16_of
from modak_deploy.performance.records import Measurements, load_measurements
from modak_deploy.performance.series import Observation, record_in


def make_plan(
    deployment: Deployment,
    facts: Facts,
    sources: Sequence[Source],
    *,
    now: datetime,
    catalogue: Catalogue | None = None,
    measurements: Measurements | None = None,
    model: Path | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> Plan:
    """Decide how to run ``deployment`` on the target that ``facts`` describe; the same input gives the same Plan.

    ``model`` is the folder of a fitted time model, which is used where it fits the measurements and the catalogue.
    ``unavailable`` holds the names of images that turned out not to be available, each with the reason: the decision
    is made without them, by the same rules.

    Raise InputError for a name that does not exist and InfeasibleError when nothing can do what was asked.
    """
    catalogue = catalogue or load_catalogue()
    measurements = measurements or load_measurements()
    scheduler = scheduler_of(deployment, facts)
    outcome = _decided(deployment, facts, catalogue, measurements, model, unavailable or {})
    decision = outcome.decision
    builder = Builder(deployment, outcome, sources, catalogue, facts, measurements)
    best, others = _rankings(decision, builder)
    chosen = best.candidate
    failed = builder.earlier(best.option).failed
    listed = _as_listed(others, outcome.choice)
    restart, trials = restart_of(deployment, best, listed, catalogue, chosen.launch, failed)
    remarks = [
        *outcome.remarks,
        *will_try(chosen.launch),
        *survey_remarks(deployment, chosen.launch, chosen.resources.ranks),
        *filter(None, [trials, advice(deployment, best, others, chosen.launch)]),
    ]
    return Plan(
        created=now.astimezone(UTC).strftime(WRITTEN_TIME),
        name=deployment.job.name or deployment.application.name,
        scheduler=scheduler,
        application=deployment.application,
        target=deployment.target,
        request=deployment.request,
        job=deployment.job,
        facts=facts.lasting(),
        sources=list(sources),
        chosen=chosen,
        prediction=best.prediction,
        default=outcome.choice.default.name,
        gain=decision.gain,
        reason="; ".join([decision.reason, *remarks]),
        restart=restart,
        alternatives=[Ranked(candidate=ranking.candidate, prediction=possible(ranking, restart)) for ranking in others],
        rejected=sorted([*outcome.choice.rejected, *decision.rejected], key=_last_if_many),
        versions=Versions(
            modak=modak_deploy.__version__,
            catalogue=catalogue.version,
            measurements=measurements.version,
            model=outcome.model,
        ),
        inputs=inputs_of(deployment, sources),
    )


def _rankings(decision: Decision, builder: Builder) -> tuple[Ranking, list[Ranking]]:
    """Return the candidate that was chosen, and the others with what trials in the job may still find of them."""
    chosen = builder.candidate(decision.chosen)
    best = Ranking(decision.chosen, decision.predictions[decision.chosen], chosen)
    others = [
        Ranking(option, with_trials(option, prediction, decision.chosen, chosen.launch), builder.candidate(option))
        for option, prediction in decision.predictions.items()
        if option != decision.chosen
    ]
    return best, others


def _as_listed(others: Sequence[Ranking], choice: Choice) -> list[Ranking]:
    """Return the candidates in the order of the catalogue, in which they are enumerated."""
    order = {option: number for number, option in enumerate(choice.feasible)}
    return sorted(others, key=lambda ranking: order[ranking.option])


def _decided(
    deployment: Deployment,
    facts: Facts,
    catalogue: Catalogue,
    measurements: Measurements,
    model: Path | None,
    unavailable: Mapping[str, str],
) -> Outcome:
    check_names(catalogue, deployment)
    partition = partition_of(deployment, facts)
    node = node_of(deployment, facts, partition)
    asked = resources_of(deployment, node, partition)
    workload = deployment.application.workload.model
    records = [observations for _, observations in measurements.evidence_of(workload)] if workload else []
    fitted, unused = usable_model(model, measurements, catalogue)

    def alternatives(resources: Resources) -> _Alternatives:
        work = _work(deployment, node, resources, catalogue)
        images = _images_in(records)
        locations = locations_of(deployment, facts, node, catalogue, resources.ranks, images, unavailable)
        cores = _cores_by_levers(deployment, node, resources, catalogue)
        evidence = Evidence(records, work, locations.feasible, catalogue.levers, cores)
        enumerators: dict[Option, Enumerator] = {}
        choice = _choice(deployment, catalogue, locations, evidence, enumerators, pairs=fitted is not None)
        return _Alternatives(resources, work, locations, evidence, enumerators, choice)

    outcome = alternatives(asked)
    # What scales is what runs without a reason for anything else; the layout found for it is then that of all options.
    scale = scale_of(deployment, outcome.series(records), node.price)
    if scale is not None and scale.resources != asked:
        outcome = alternatives(scale.resources)
    choice, resources = outcome.choice, outcome.resources
    choice.rejected += unused
    modelled = Modelled(fitted, outcome.work, outcome.locations.by_option(), catalogue, records) if fitted else None
    decision = _decision(
        choice, Knowledge(outcome.evidence, modelled, scale, Carrier(outcome.work, catalogue)), deployment, node.price
    )
    remarks = [
        outcome.locations.unused,
        scale.text if scale else None,
        _without(unavailable),
        doubt_of_limits(decision.predictions[decision.chosen], deployment, resources.nodes, node.price),
    ]
    clauses = [remark for remark in remarks if remark is not None]
    version = modelled.version if modelled else None
    return Outcome(
        outcome.locations, outcome.enumerators, outcome.evidence, choice, decision, resources, clauses, version
    )


def _decision(choice: Choice, knowledge: Knowledge, deployment: Deployment, price: float | None) -> Decision:
    """Decide; where no option keeps to the limits, say as well that the default does so at no layout."""
    try:
        return decide(choice, knowledge, deployment, price)
    except InfeasibleError as error:
        if knowledge.scale is None or knowledge.scale.refusal is None:
            raise
        key, refusal = knowledge.scale.refusal
        raise InfeasibleError(f"{refusal}; {error}", key=key) from None


@dataclass(frozen=True)
class _Alternatives:
    """What can be chosen at one layout."""

    resources: Resources
    work: Work
    locations: Locations
    evidence: Evidence
    enumerators: Mapping[Option, Enumerator]
    choice: Choice

    def series(self, records: Sequence[Observation]) -> Series:
        """Return the measurements of the base option at all layouts."""
        base = self.choice.base
        return Series(records, self.work, self.locations.by_option()[base.with_levers(())], base.levers, self.resources)


def _without(unavailable: Mapping[str, str]) -> str | None:
    """Return the clause on images that turned out not to be available."""
    if not unavailable:
        return None
    first, *others = unavailable
    more = f" and {len(others)} more" if others else ""
    return f"it was decided without {first}{more}, because {unavailable[first]}"


def chosen_location(plan: Plan, catalogue: Catalogue) -> Location:
    """Return the location of a Plan's chosen candidate; InfeasibleError where it cannot be used any more."""
    asked, node = plan.asked, node_of_plan(plan)
    image = plan.chosen.image.entry if plan.chosen.image is not None else None
    images = frozenset({image} if image else ())
    locations = locations_of(asked, plan.facts, node, catalogue, plan.chosen.resources.ranks, images, {})
    for location in locations.feasible:
        option = location.option(())
        if (option.runtime, option.image, option.engine) == (plan.chosen.runtime, image, plan.chosen.engine):
            return location
    raise InfeasibleError(f"the candidate '{plan.chosen.name}' cannot be used on {plan.target.name} any more")


def inputs_of(deployment: Deployment, sources: Sequence[Source]) -> str:
    """Return the hash of what was asked."""
    asked = deployment.model_dump(mode="json", include={"application", "target", "request", "job"})
    # Left out where they are not given, so that what was asked before there were any keeps its hash.
    if deployment.target.cloud is None:
        del asked["target"]["cloud"]
    if deployment.target.kubernetes is None:
        del asked["target"]["kubernetes"]
    if deployment.application.service is None:
        del asked["application"]["service"]
    if deployment.application.objects is None:
        del asked["application"]["objects"]
    if deployment.request.deadline is None:
        del asked["request"]["deadline"]
    return sha256_of({**asked, "sources": [source.model_dump(mode="json") for source in sources]})


def _last_if_many(rejected: Rejected) -> tuple[bool, str]:
    return (" other " in rejected.name, rejected.name)


def _images_in(observations: Sequence[Observation]) -> frozenset[str]:
    records = [record_in(observation) for observation in observations]
    configurations = [record.configuration for record in records]
    configurations += [record.baseline for record in records if isinstance(record, Ratio)]
    return frozenset(c.image for c in configurations if c.image)


def _choice(
    deployment: Deployment,
    catalogue: Catalogue,
    locations: Locations,
    evidence: Evidence,
    enumerators: dict[Option, Enumerator],
    *,
    pairs: bool,
) -> Choice:
    """Return the options of all places; the first place that can do what the request requires has the base.

    ``enumerators`` takes up the one of each place.
    """
    exact = deployment.request.configuration
    whole: Choice | None = None
    refused: list[Rejected] = []
    for location in locations.feasible:
        try:
            enumerator = enumerators[location.option(())] = Enumerator(catalogue, deployment, location)
            if exact is not None:
                choice = enumerator.exactly(exact.levers)
            else:
                choice = enumerator.choose(evidence.measured(location), explore=whole is None, pairs=pairs)
        except InfeasibleError as error:
            refused.append(Rejected(name=location.option(()).name, reason=str(error)))
            continue
        if whole is None:
            whole = choice
        else:
            whole.join(choice)
    if whole is None:
        if len(refused) == 1:
            raise InfeasibleError(refused[0].reason)
        raise InfeasibleError("; ".join(f"{r.name}: {r.reason}" for r in refused))
    whole.rejected += [*refused, *locations.rejected]
    return whole


def _work(deployment: Deployment, node: Node, resources: Resources, catalogue: Catalogue) -> Work:
    framework = deployment.application.framework
    gpus = resources.gpus if node.accelerators else 0
    return Work(
        type=deployment.application.type,
        framework=framework.name.lower() if framework else None,
        workload=deployment.application.workload,
        microarchitecture=node.microarchitecture,
        cpu_model=node.cpu_model,
        bf16=bf16_of(node.cpu_features),
        cores=reserved_cores(resources, node),
        accelerator=accelerator_name(node.accelerators[0].model, catalogue) if gpus else None,
        accelerators=gpus,
        nodes=resources.nodes,
        ranks=resources.ranks,
    )


def _cores_by_levers(
    deployment: Deployment, node: Node, resources: Resources, catalogue: Catalogue
) -> Callable[[LeverSet], int | None]:
    """Return the function that tells how many cores a job with these levers reserves of a node."""
    cores = cores_of(deployment, node)

    def reserved(levers: LeverSet) -> int | None:
        effects = (catalogue.levers[name].all_effects for name in levers if name in catalogue.levers)
        return reserved_cores(with_threads(resources, deployment, applied(effects, cores).threads), node)

    return reserved
