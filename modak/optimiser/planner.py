"""make_plan: from what was asked and found to the Plan."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

import modak
from modak.catalogue.catalogue import Catalogue, load_catalogue
from modak.errors import InfeasibleError
from modak.model.base import SchedulerName
from modak.model.deployment import Deployment
from modak.model.plan import Candidate, Plan, Ranked, Rejected, Resources, Source, Versions, sha256_of
from modak.model.target import Facts, Node
from modak.optimiser.candidates import Enumerator, LeverSet, name_of
from modak.optimiser.conditions import Context, satisfies
from modak.optimiser.decision import decide
from modak.optimiser.prediction import Evidence
from modak.optimiser.resources import check_scheduler, node_of, partition_of, resources_of
from modak.performance.matching import Work
from modak.performance.records import Measurements, load_measurements

_PACKAGES = {
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
}
"""The Python package of a framework, where modak knows it."""


def make_plan(
    deployment: Deployment,
    facts: Facts,
    sources: Sequence[Source],
    *,
    now: datetime,
    catalogue: Catalogue | None = None,
    measurements: Measurements | None = None,
) -> Plan:
    """Decide how to run ``deployment`` on the target that ``facts`` describe; the same input gives the same Plan.

    Raise InputError for a name that does not exist and InfeasibleError when nothing can do what was asked.
    """
    catalogue = catalogue or load_catalogue()
    measurements = measurements or load_measurements()
    check_scheduler(deployment, facts)
    partition = partition_of(deployment, facts)
    node = node_of(deployment, facts, partition)
    resources = resources_of(deployment, node, partition)
    context = _context(deployment, facts, node, catalogue)
    _check_native(deployment, facts, context)
    evidence = _evidence(deployment, context, resources, measurements)
    choice = Enumerator(catalogue, deployment, context).choose(evidence.measured())
    decision = decide(choice, evidence, deployment, resources.nodes)

    def build(levers: LeverSet) -> Candidate:
        return _candidate(levers, deployment, facts, sources, catalogue, resources)

    return Plan(
        created=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        name=deployment.job.name or deployment.application.name,
        scheduler=_scheduler(deployment),
        application=deployment.application,
        target=deployment.target,
        request=deployment.request,
        job=deployment.job,
        facts=facts,
        sources=list(sources),
        chosen=build(decision.chosen),
        prediction=decision.predictions[decision.chosen],
        default=name_of(choice.default),
        gain=decision.gain,
        reason=decision.reason,
        alternatives=[
            Ranked(candidate=build(levers), prediction=prediction)
            for levers, prediction in decision.predictions.items()
            if levers != decision.chosen
        ],
        rejected=sorted([*choice.rejected, *decision.rejected], key=_last_if_many),
        versions=Versions(modak=modak.__version__, catalogue=catalogue.version, measurements=measurements.version),
        inputs=inputs_of(deployment, sources),
    )


def inputs_of(deployment: Deployment, sources: Sequence[Source]) -> str:
    """Return the hash of what was asked."""
    asked = deployment.model_dump(mode="json", include={"application", "target", "request", "job"})
    return sha256_of({**asked, "sources": [source.model_dump(mode="json") for source in sources]})


def _last_if_many(rejected: Rejected) -> tuple[bool, str]:
    return (rejected.name.startswith("up to "), rejected.name)


def _scheduler(deployment: Deployment) -> SchedulerName:
    kind = deployment.target.type
    return "process" if kind == "machine" else kind


def _context(deployment: Deployment, facts: Facts, node: Node, catalogue: Catalogue) -> Context:
    framework = deployment.application.framework
    return Context(
        type=deployment.application.type,
        framework=framework.name.lower() if framework else None,
        node=node,
        glibc=facts.glibc,
        libraries=facts.libraries,
        packages=facts.packages,
        gpus=deployment.job.gpus,
        aliases=catalogue.packages,
    )


def _check_native(deployment: Deployment, facts: Facts, context: Context) -> None:
    """Raise InfeasibleError where the application cannot run as a plain process on the target."""
    permitted = [r for r in (deployment.request.runtimes, deployment.target.runtimes) if r is not None]
    if any("native" not in runtimes for runtimes in permitted):
        raise InfeasibleError(
            "request.runtimes: no image is known for the application, so that 'native' must be permitted"
        )
    application, name = deployment.application, deployment.target.name
    if application.script is None:
        return
    if python_of(deployment, facts) is None:
        raise InfeasibleError(f"no Python was found on the target {name} for {application.script}: set target.python")
    if application.framework is None or context.framework is None:
        return
    package = _PACKAGES.get(context.framework, context.framework)
    version = context.version_of(package)
    if version is None:
        raise InfeasibleError(
            f"the Python {python_of(deployment, facts)} on the target {name} has no {package}: install it there, or "
            "set target.python to one that has it"
        )
    wanted = application.framework.version
    if wanted is not None and not satisfies(version, wanted):
        raise InfeasibleError(
            f"application.framework.version: {wanted} was asked for, and the target has {package} {version}"
        )


def python_of(deployment: Deployment, facts: Facts) -> str | None:
    """Return the application's Python on the target; what the user says stands over what was found."""
    return deployment.target.python or facts.python


def _evidence(deployment: Deployment, context: Context, resources: Resources, measurements: Measurements) -> Evidence:
    workload = deployment.application.workload
    node = context.node
    accelerators = node.accelerators if context.gpus else []
    work = Work(
        type=context.type,
        framework=context.framework,
        workload=workload,
        microarchitecture=node.microarchitecture,
        cpu_model=node.cpu_model,
        cores=resources.threads * resources.ranks_per_node if resources.threads else node.cores,
        accelerator=accelerators[0].model if accelerators else None,
        accelerators=context.gpus,
        packages={**context.packages, **{name: v for name in context.aliases if (v := context.version_of(name))}},
    )
    records = measurements.of_workload(workload.model) if workload.model else []
    alike = (resources.nodes, resources.ranks)
    return Evidence((r for r in records if (r.configuration.nodes, r.configuration.ranks) == alike), work)


def _candidate(
    levers: LeverSet,
    deployment: Deployment,
    facts: Facts,
    sources: Sequence[Source],
    catalogue: Catalogue,
    resources: Resources,
) -> Candidate:
    chosen = [catalogue.levers[name] for name in levers]
    environment = {key: value for lever in chosen for key, value in lever.variables().items()}
    launcher = next((lever.launcher for lever in chosen if lever.launcher), None)
    threads = next((lever.threads for lever in chosen if lever.threads), None)
    if threads is not None and deployment.job.cores_per_rank is None and deployment.target.type != "machine":
        resources = resources.model_copy(update={"threads": threads})
    return Candidate(
        name=name_of(levers),
        compiler=next((lever.compiler for lever in chosen if lever.compiler), None),
        levers=list(levers),
        environment=environment,
        preload=[lever.preload for lever in chosen if lever.preload],
        launcher=launcher,
        argv=_argv(deployment, facts, sources, launcher),
        resources=resources,
    )


def _argv(deployment: Deployment, facts: Facts, sources: Sequence[Source], launcher: str | None) -> list[str]:
    application = deployment.application
    if application.script is None:
        return [application.executable or "", *application.arguments]
    starter = [f"launchers/{launcher}"] if launcher else []
    script = _placed(application.script, sources)
    return [python_of(deployment, facts) or "", *starter, script, *application.arguments]


def _placed(script: str, sources: Sequence[Source]) -> str:
    """Return where the script lies below the working directory."""
    paths = [source.path for source in sources]
    if script in paths:
        return script
    base = PurePosixPath(script).name
    return base if base in paths else script
