"""A benchmark as one job on any target: the default, modak's choice and others, in interleaved rounds."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.documents import LocalSource, find_sources
from modak_deploy.errors import JobError
from modak_deploy.evidence.bundle import archive
from modak_deploy.evidence.configurations import Wanted, check_supported, entry, plans_of
from modak_deploy.evidence.finished import DESCRIPTION, REPEATS, Description, Finished, read_finished, write_description
from modak_deploy.evidence.protocol import Outcome, Protocol, Repeat, settings
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.job import Job
from modak_deploy.jobs.logs import explanation
from modak_deploy.jobs.settings import Reporter
from modak_deploy.launch import bundle
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement, Run
from modak_deploy.model.plan import Plan, Source
from modak_deploy.model.request import ExactConfiguration, Request
from modak_deploy.optimiser import changes, make_plan
from modak_deploy.performance.recording import FIRST, LATER, check_recordable, measurement_of
from modak_deploy.planning import plan_deployment, with_image
from modak_deploy.schedulers import options
from modak_deploy.transport.base import Transport
from modak_deploy.transport.connect import check_reachable

DRIVER, SETTINGS, LAUNCHER = "modak_benchmark.pyz", "settings.json", "modak_launch.zip"
METHOD = "modak benchmark: whole processes in interleaved rounds of random order on one node, wall time"


@dataclass(frozen=True)
class Prepared:
    """A benchmark that is ready to be submitted."""

    plan: Plan
    """Of the benchmark's own job."""
    configurations: Sequence[Plan]
    """The default first."""
    choice: str
    """Name of modak's choice."""
    protocol: Protocol
    texts: Mapping[str, bytes]
    """Files of modak's that travel."""
    sources: Sequence[LocalSource]
    """Files of the application."""

    @property
    def folder(self) -> str:
        """Name of the results folder."""
        return self.plan.name


def prepare(
    deployment: Deployment,
    transport: Transport,
    *,
    wanted: Wanted,
    protocol: Protocol,
    search: Sequence[Path],
    default_python: str | None = None,
) -> Prepared:
    """Decide what is measured, and plan the benchmark's job; nothing is submitted."""
    check_reachable(deployment.target, "a benchmark")
    catalogue = catalogue_for(deployment.request.catalogue, search)
    now = datetime.now(UTC)
    first = plan_deployment(deployment, transport, search=search, now=now, default_python=default_python)
    check_supported(first)
    plans = [with_image(plan, transport, search=search) for plan in plans_of(first, wanted, catalogue)]
    return _prepared(deployment, first, plans, protocol, search, catalogue, now)


def _prepared(
    deployment: Deployment,
    first: Plan,
    plans: Sequence[Plan],
    protocol: Protocol,
    search: Sequence[Path],
    catalogue: Catalogue,
    now: datetime,
) -> Prepared:
    application = first.application
    counts = application.type in ("ai_training", "ai_inference")
    more = {
        "outputs": application.outputs,
        "metrics": application.metrics,
        "first_key": FIRST,
        "later_key": LATER,
        "array": first.job.array is not None,
    }
    driver_settings = settings(protocol, [entry(plan, counts=counts) for plan in plans], **more)
    texts = {DRIVER: archive(), SETTINGS: driver_settings.encode(), LAUNCHER: bundle.archive()}
    for configuration in plans:  # wrappers that start the script
        texts |= {f"app/{path}": data for path, data in job_request(configuration).programs.items()}
    moved = [_moved(source) for source in find_sources(application, search)]
    own = [Source(path=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data)) for name, data in texts.items()]
    name = f"{deployment.run_name[:50]}-benchmark"
    asked = Deployment(
        application=Application(name=name, type="hpc", script=DRIVER, arguments=[SETTINGS], outputs=[REPEATS]),
        target=first.target,
        request=Request(trials="none", catalogue=first.request.catalogue, configuration=ExactConfiguration()),
        job=first.job.model_copy(update={"name": name, "output": None, "error": None, "environment": {}}),
    )
    sources = [*own, *(item.source for item in moved)]
    plan = _reserving(make_plan(asked, first.facts, sources, now=now, catalogue=catalogue), plans)
    return Prepared(plan, plans, first.chosen.name, protocol, texts, moved)


def _reserving(plan: Plan, configurations: Sequence[Plan]) -> Plan:
    """Return the Plan of the benchmark's job with the cores that its configurations are planned and recorded with.

    The driver itself is a program of type hpc, to which a cluster gives one core where nobody asks for more.
    """
    default, *others = [configuration.chosen.resources.threads for configuration in configurations]
    if default is None or plan.chosen.resources.threads is not None:
        return plan
    return changes.with_threads(plan, max([default, *filter(None, others)]))


def _moved(item: LocalSource) -> LocalSource:
    """Return a file of the application below ``app``, from where the driver takes it for each run."""
    return LocalSource(item.source.model_copy(update={"path": f"app/{item.source.path}"}), item.local)


def carry_out(
    prepared: Prepared, transport: Transport, results: Path, *, reporter: Reporter | None = None, follow: bool = True
) -> tuple[Finished, bool]:
    """Submit the benchmark's job, or find the one that is there, wait for it, and read what it measured.

    Return that, and whether anything changed.

    A second call goes on where the first one ended: a job that runs is followed, and one that was ended is submitted
    again and keeps the repeats that it has.
    """
    jobs = Jobs(transport, reporter=reporter)
    request = job_request(prepared.plan)

    def images(directory: str) -> None:
        for plan in prepared.configurations:
            realise(transport, job_request(plan), directory)

    with TemporaryDirectory(prefix="modak-benchmark-") as name:
        own = []
        sources = {source.path: source for source in prepared.plan.sources}
        for path, data in prepared.texts.items():
            local = Path(name, path)
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(data)
            own.append(LocalSource(sources[path], local))
        present = jobs.present(request, [*own, *prepared.sources], realise=images)
        (result,) = jobs.wait([present], follow=follow)
        fetched = jobs.fetch_results(present.job, result, results)
    folder = results / prepared.folder
    if fetched.result.state != "completed":
        # Of an earlier benchmark of this name, and not of what was measured now.
        (folder / DESCRIPTION).unlink(missing_ok=True)
        raise JobError(explanation(request, fetched.result))
    first = prepared.configurations[0]
    description = Description(
        title=f"{first.name} on {first.target.name}",
        default=first.chosen.name,
        choice=prepared.choice,
        protocol=prepared.protocol,
        repeats=_files(present.job),
        plans=list(prepared.configurations),
    )
    write_description(folder, description)
    return read_finished(folder), present.made or fetched.changed


def _files(job: Job) -> list[str]:
    """Return the names of the files that the driver wrote."""
    array = options.array(job.spec, job.scheduler.name)
    return [f"repeats.{task}.jsonl" for task in array.indices()] if array else ["repeats.jsonl"]


def measurements_of(finished: Finished, catalogue: Catalogue) -> list[Measurement]:
    """Return a measurement of each configuration whose results agree with the default's."""
    plans = {plan.chosen.name: plan for plan in finished.description.plans}
    # The day that it began on for all: a decision compares round by round what has one source and one day.
    when = finished.repeats[0].time
    moved = []
    for outcome in finished.outcomes:
        plan = plans.get(outcome.name)
        if plan is None or outcome.fault or not outcome.counted:
            continue
        check_recordable(plan, "record")
        runs = [_run(repeat, plan.application.workload.units) for repeat in outcome.counted]
        source = f"modak benchmark of {plan.name} on {plan.target.name}, {when}"
        moved.append(
            measurement_of(plan, runs, catalogue, when=when, source=source, method=_method(outcome, finished.default))
        )
    return moved


def _method(outcome: Outcome, default: Outcome) -> str:
    """Return how a configuration was measured, in a sentence."""
    disturbed = outcome.is_disturbed or default.is_disturbed
    left_out = "disturbed runs and outliers are left out"
    runs = "outliers are left out, and other work disturbed the runs" if disturbed else left_out
    compared = any(repeat.compared for repeat in [*outcome.counted, *default.counted])
    return f"{METHOD}; {runs}, and results were {'' if compared else 'not '}compared with the default's."


def _run(repeat: Repeat, asked: int) -> Run:
    units = repeat.unit_seconds(asked)
    return Run(
        total=repeat.wall,
        first=units[0] if units else None,
        later=units[1:],
        block=repeat.number,
        load=repeat.load,
        time=repeat.time or None,
    )
