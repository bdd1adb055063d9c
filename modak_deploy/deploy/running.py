"""The job of a Plan from its preview to its recorded results: what the action plugins and the command line share."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.deploy.progress import EndReporter
from modak_deploy.documents import find_sources
from modak_deploy.errors import InputError, ModakError
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import JobInput, Jobs, Present
from modak_deploy.jobs.logs import explanation
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.objects import check_outputs, fetch_objects, store_objects
from modak_deploy.optimiser.changes import with_secrets
from modak_deploy.performance.paths import store_in_use
from modak_deploy.performance.recording import add_results, check_recordable, is_learnt_from, is_undisturbed
from modak_deploy.secret_values import Reader, checked_values, environment_file, hashes_of
from modak_deploy.transport.base import Transport
from modak_deploy.util.files import write_atomically

OBJECTS = "objects.json"
"""File among a run's results that says as which objects they were stored."""


@dataclass(frozen=True)
class RunSettings:
    """How a job is run."""

    wait: bool = True
    timeout: float | None = None
    """Longest time to wait for its end, in seconds."""
    restarted: bool = False
    """Whether a job that is there is removed first."""
    follow: bool = False
    """Whether its output is shown."""
    record: bool | None = None
    """Whether its measurements are recorded; where None, as far as they can be."""
    retry: bool | None = None
    """Whether a job that did not complete is run again; where None, the Plan says."""
    template: str | None = None
    """Text of the job script's template, in place of modak's own."""


@dataclass(frozen=True)
class Previewed:
    """What a run would do."""

    script: str
    submits: bool
    job: JobResult | None
    """The job that is there."""
    previous: JobResult | None
    """How that job ended, where it would be run again."""
    stores: bool = False
    """Whether results of the job that is there would be stored as objects."""

    @property
    def changes(self) -> bool:
        """Whether anything would be submitted or stored."""
        return self.submits or self.stores


@dataclass(frozen=True)
class Outcome:
    """What a run has done."""

    changed: bool
    submitted: bool
    """Whether the job was submitted by this run."""
    script: str
    job: JobResult
    previous: JobResult | None = None
    """How the attempt before ended, where this run has put it aside."""
    problem: str = ""
    """Why the job did not complete, with the last lines of its log; empty where it did, or was not waited for."""
    recorded: int | None = None
    """How many measurements were new; None where nothing was recorded."""


class Deployer:
    """Runs the jobs of Plans on one target."""

    def __init__(
        self, transport: Transport, jobs: Jobs, *, search: Sequence[Path], secrets: Reader, reporter: EndReporter
    ) -> None:
        self.jobs = jobs
        self._transport = transport
        self._search = search
        self._secrets = secrets
        self._reporter = reporter

    def completed(self, plan: Plan) -> Plan:
        """Return the Plan with the hashes of its secrets, which one made by ``modak plan`` does not have."""
        if plan.application.secret_environment and not plan.secrets:
            return with_secrets(plan, hashes_of(plan, self._secrets))
        return plan

    def input(self, plan: Plan) -> JobInput:
        """Return the job of a Plan with what it needs from this machine."""
        return self.input_of(plan, job_request(plan))

    def input_of(self, plan: Plan, request: JobRequest) -> JobInput:
        """Return a job that runs a Plan's program with what it needs from this machine."""
        has_image = plan.chosen.image is not None and plan.chosen.runtime != "native"

        fetch_objects(plan.application.objects, self._reporter.notice)
        check_outputs(plan.application.objects)

        def realise_image(directory: str) -> None:
            realise(self._transport, request, directory)

        return JobInput(
            request,
            find_sources(plan.application, self._search),
            realise=realise_image if has_image else None,
            secrets=lambda: environment_file(checked_values(plan, self._secrets)),
        )

    def preview(self, plan: Plan, settings: RunSettings, results: Path) -> Previewed:
        """Return what ``run`` would do; nothing is changed."""
        again = settings.restarted
        preview = self.jobs.preview(job_request(plan), settings.template, again=again, retry=settings.retry)
        job = None if preview.job is None else self.jobs.see(preview.job)
        submits = again or preview.job is None or preview.ended is not None
        would = would_store(plan, None if submits else job, settings, results, self._reporter.notice)
        return Previewed(preview.script, submits, job, preview.ended, stores=would and not submits)

    def submit(self, plan: Plan, settings: RunSettings) -> Present:
        """Submit the job of a Plan unless it has been submitted before; see ``Jobs.present``."""
        if settings.record:
            check_recording(plan, wait=settings.wait)
        item = self.input(plan)
        if settings.restarted:
            # What cannot be submitted must not cost the job that is there.
            self.jobs.preview(item.request, settings.template, again=True)
            self.jobs.absent(item.request)
        return self.jobs.present(
            item.request,
            item.sources,
            template=settings.template,
            realise=item.realise,
            secrets=item.secrets,
            retry=settings.retry,
        )

    def finish(self, plan: Plan, present: Present, settings: RunSettings, results: Path) -> Outcome:
        """Wait for the end of a job and fetch its results to ``results``, or only look where it is not waited for."""
        if not settings.wait:
            result = self.jobs.see(present.job)
            return Outcome(present.made, present.made, present.script, result, present.ended)
        prepare_reports()
        (result,) = self.jobs.wait([present], timeout=settings.timeout, follow=settings.follow)
        fetched = self.jobs.fetch_results(present.job, result, results)
        result = fetched.result
        write_reports(self.jobs, [result])
        self._reporter.end(result)
        changed = present.made or fetched.changed
        if result.state != "completed":
            problem = explanation(present.job.request, result)
            return Outcome(changed, present.made, present.script, result, present.ended, problem=problem)
        new = recorded(plan, result, settings.record, self._search, self._reporter.notice)
        changed |= stored(plan, result, self._reporter.notice)
        learn(new, self._reporter.notice)
        return Outcome(changed, present.made, present.script, result, present.ended, recorded=new)

    def run(self, plan: Plan, settings: RunSettings, results: Path) -> Outcome:
        """Submit the job unless it has been submitted, wait for it, and fetch and record its results."""
        return self.finish(plan, self.submit(plan, settings), settings, results)


def recorded(
    plan: Plan, result: JobResult, record: bool | None, search: Sequence[Path], notice: Callable[[str], None]
) -> int | None:
    """Add what a job took, or has tried, to the store of measurements; return how many were new.

    It is recorded unless the user has said no, and then a store that cannot be written is no reason to fail a job that
    has completed.
    """
    if record:
        return _record(plan, result, search, whole=True)
    if record is None and is_learnt_from(plan, result):
        try:
            return _record(plan, result, search, whole=is_undisturbed(plan, result))
        except (ModakError, OSError) as error:
            notice(f"the job is not recorded: {error}")
    return None


def stored(plan: Plan, result: JobResult, notice: Callable[[str], None]) -> bool:
    """Store the results of a completed job as objects, with their checksums beside them; return whether any was new."""
    if plan.application.objects is None or result.results is None:
        return False
    folder = Path(result.results)
    moved = store_objects(plan.application.objects, folder, notice)
    if moved:
        kept = [{"path": m.path, "url": m.url, "size": m.size, "sha256": m.sha256} for m in moved]
        write_atomically(folder / OBJECTS, json.dumps(kept, indent=2) + "\n")
    return any(m.changed for m in moved)


def would_store(
    plan: Plan, job: JobResult | None, settings: RunSettings, results: Path, notice: Callable[[str], None]
) -> bool:
    """Tell what would be stored of a job that is there, or of one that would be submitted; return whether anything."""
    objects = plan.application.objects
    if objects is None or (job is not None and (job.state != "completed" or not settings.wait)):
        return False
    folder = results / plan.name
    if job is not None and all((folder / path).is_file() for path in objects.outputs):
        return any(moved.changed for moved in store_objects(objects, folder, notice, check=True))
    for path, url in objects.outputs.items():
        notice(f"would store {path} as {url}{' after the job' if job is None else ''}")
    return bool(objects.outputs)


def _record(plan: Plan, result: JobResult, search: Sequence[Path], *, whole: bool) -> int:
    catalogue = catalogue_for(plan.request.catalogue, list(search))
    return add_results([Path(str(result.results))], catalogue, store_in_use(), whole=whole)[0]


def learn(new: int | None, notice: Callable[[str], None]) -> None:
    """Let the time model keep up where ``new`` measurements were recorded."""
    if new:
        from modak_deploy.performance.refitting import keep_current

        keep_current(notice)


def prepare_reports() -> None:
    """Load what ``write_reports`` needs, 0.1 to 0.2 s of processor time, while the jobs wait and run."""
    import modak_deploy.evidence.report  # noqa: F401
    from modak_deploy.evidence.page import prepare

    prepare()


def write_reports(jobs: Jobs, results: Sequence[JobResult]) -> None:
    """Write the reports of jobs whose results were fetched; what cannot be written is told, and nothing fails."""
    from modak_deploy.evidence.report import write_job_reports

    for problem in write_job_reports([Path(result.results) for result in results if result.results is not None]):
        jobs.notice(problem)


def check_recording(plan: Plan, *, wait: bool) -> None:
    """Raise InputError, before anything is submitted, for what can be no measurement in the end."""
    check_recordable(plan, "record")
    if not wait:
        raise InputError("record: a job that is not waited for has no end to record: wait, or leave it out")
