"""A job from its request to its results: what the Ansible modules and the command line call."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from modak_deploy.errors import JobError, ModakError, TargetError
from modak_deploy.jobs import attempts, files, queue, removal, staging, status
from modak_deploy.jobs.batch import Batch, Entry, Realise
from modak_deploy.jobs.files import LocalSource
from modak_deploy.jobs.job import PLAN, SCRIPT, SECRETS, Job, read_id, specification
from modak_deploy.jobs.remote import ask
from modak_deploy.jobs.results import Ended, FetchedResults, check_logs, declared_outputs, fetch_all
from modak_deploy.jobs.script import render
from modak_deploy.jobs.settings import Notices, Reporter, Silent, Timeouts
from modak_deploy.jobs.staging import JobFolder
from modak_deploy.jobs.submission import Submission, Submitted, recorded
from modak_deploy.jobs.watch import Watch
from modak_deploy.model.job import ENDS, JobResult, JobState
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.schedulers.states import unreachable
from modak_deploy.shell import quote
from modak_deploy.transport.base import Transport

Secrets = Callable[[], bytes]
"""Returns the lines for the job's file of secrets; called only where the job is about to be submitted."""
_QUEUED_FOR_EVER: frozenset[JobState] = frozenset({"dependency_never_satisfied", "never_starts"})
"""Ends of jobs that are in the queue all the same, until somebody cancels them."""


@dataclass(frozen=True)
class JobInput:
    """A job that is to be submitted, and what it needs from this machine."""

    request: JobRequest
    sources: Sequence[LocalSource] = ()
    realise: Realise | None = None
    secrets: Secrets | None = None


@dataclass(frozen=True)
class Prepared:
    """A job and its script; ``job_folder`` is its folder as it was seen."""

    request: JobRequest
    spec: JobSpec
    script: str
    job_folder: JobFolder


@dataclass(frozen=True)
class Preview:
    """What would be done."""

    script: str
    job: Job | None
    """The job that is there already; None when one would be submitted."""
    ended: JobResult | None = None
    """How that job ended, where it did not complete and would be run again."""


@dataclass(frozen=True)
class Present:
    """A job that is in the queue, or was."""

    job: Job
    script: str
    made: bool
    """Whether it was submitted just now."""
    ended: JobResult | None = None
    """How the attempt before ended, where this run has put it aside."""


class Jobs:
    """Jobs on one target. Nothing is kept between two calls: what must be known later lies on the target.

    All methods raise InputError for what the scheduler cannot honour, TargetError when target or scheduler do not
    answer, and JobError when the scheduler refuses the job.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeouts: Timeouts | None = None,
        reporter: Reporter | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """``scheduler`` is asked instead of the one that each request names."""
        self._transport = transport
        self._timeouts = timeouts or Timeouts()
        self._reporter = reporter or Silent()
        self._scheduler = scheduler

    def prepare(self, request: JobRequest, template: str | None = None) -> Prepared:
        """Look at the job's folder and render its script, in one round trip."""
        return self._prepare_all([request], template)[0]

    def _prepare_all(self, requests: Sequence[JobRequest], template: str | None) -> list[Prepared]:
        for request in requests:
            declared_outputs(request)
            check_logs(request)
        wanted = [(request, [PLAN, SCRIPT, *files.paths_of(request)]) for request in requests]
        job_folders = staging.look_all(self._transport, wanted)
        prepared = []
        for request, job_folder in zip(requests, job_folders, strict=True):
            spec = specification(request, job_folder.directory)
            prepared.append(Prepared(request, spec, render(spec, request, self._for(request), template), job_folder))
        return prepared

    def preview(
        self, request: JobRequest, template: str | None = None, *, again: bool = False, retry: bool | None = None
    ) -> Preview:
        """Return what ``present`` would do, and ask the scheduler whether it would take the job; nothing is changed.

        ``again`` asks it for a job that is there already too.
        """
        scheduler = self._for(request)
        prepared = self.prepare(request, template)
        submitted = recorded(scheduler, prepared.job_folder)
        job = None if submitted is None else self._job(prepared, submitted)
        ended = None if job is None or again else self._ended_badly(job, prepared, retry)
        if job is None or again or ended is not None:
            self._check(prepared)
        return Preview(prepared.script, job, ended)

    def check(self, item: JobInput) -> None:
        """Raise what ``present`` would before it changes anything: for the script, the files and the secrets."""
        prepared = self.prepare(item.request)
        self._check(prepared)
        self._entry(prepared, item)

    def present(
        self,
        request: JobRequest,
        sources: Sequence[LocalSource] = (),
        *,
        template: str | None = None,
        realise: Realise | None = None,
        secrets: Secrets | None = None,
        retry: bool | None = None,
    ) -> Present:
        """Submit the job, unless it has been submitted before.

        A job that has ended in any other way than completed is submitted again as its next attempt, unless ``retry``,
        or ``job.retry`` of the request where that is None, is false.
        """
        inputs = JobInput(request, sources, realise, secrets)
        (present,) = self.present_all([inputs], template=template, retry=retry)
        if isinstance(present, ModakError):
            raise present
        return present

    def present_all(
        self, inputs: Sequence[JobInput], *, template: str | None = None, retry: bool | None = None
    ) -> list[Present | ModakError]:
        """Submit several jobs as ``present`` does, together; return for each the job or what went wrong.

        What concerns the target as a whole is raised.
        """
        prepared = self._prepare_all([item.request for item in inputs], template)
        jobs = [self._recorded(item) for item in prepared]
        jobs, ends = self._ended_badly_all(list(zip(jobs, prepared, strict=True)), retry)
        outcomes: dict[int, Present | ModakError] = {}
        fresh: dict[int, Entry] = {}
        for number, (item, ended) in enumerate(zip(inputs, ends, strict=True)):
            job = jobs[number]
            try:
                if ended is not None:
                    self._put_aside(prepared[number], ended, item.sources)
                    prepared[number] = self.prepare(item.request, template)
                    job = self._recorded(prepared[number])  # another run may have been faster
                if job is None:
                    fresh[number] = self._entry(prepared[number], item)
                else:
                    outcomes[number] = Present(job, prepared[number].script, made=False)
            except ModakError as error:
                outcomes[number] = error
        batch = Batch(self._transport, self._timeouts, self._reporter)
        for number, submitted in zip(fresh, batch.submit(list(fresh.values())), strict=True):
            if isinstance(submitted, ModakError):
                outcomes[number] = submitted
            else:
                job, before = self._job(prepared[number], submitted), ends[number] if submitted.made else None
                outcomes[number] = Present(job, prepared[number].script, submitted.made, before)
        return [outcomes[number] for number in range(len(inputs))]

    def wait(self, present: Sequence[Present], *, timeout: float | None = None, follow: int = 0) -> list[JobResult]:
        """Return how the jobs of one scheduler ended, in their order; see ``Watch.wait``.

        ``follow`` is the byte of their output from which on the reporter gets it, counted from 1.
        """
        jobs = [item.job for item in present]
        watch = Watch(self._transport, jobs, timeouts=self._timeouts, reporter=self._reporter, follow=follow)
        return watch.wait(timeout=timeout, at_once=not all(item.made for item in present))

    def see(self, job: Job) -> JobResult:
        """Return the job as it is now; see ``see_all``."""
        return self.see_all([job])[0]

    def see_all(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the jobs as they are now, in one round trip for each scheduler that has some.

        Where queue and records do not fit together they are asked a few times more; see ``Watch.see``.
        """
        results: dict[str, JobResult] = {}
        for group in _by_scheduler(jobs):
            watch = Watch(self._transport, group, timeouts=self._timeouts, reporter=Silent())
            results |= {job.spec.directory: result for job, result in zip(group, watch.see(), strict=True)}
        return [results[job.spec.directory] for job in jobs]

    def submitted(self, job: Job) -> JobResult:
        """Return a job of which nothing else is known yet than that it has been submitted, without a round trip."""
        return Watch(self._transport, [job], timeouts=self._timeouts, reporter=Silent()).results()[0]

    def is_alive(self, job: Job) -> bool:
        """Return whether the scheduler has the job and it has not ended."""
        return bool(queue.alive(self._transport, job.scheduler, [job.id]))

    def notice(self, text: str) -> None:
        """Tell the reporter something that a user should know, as one sentence."""
        self._reporter.notice(text)

    def find(self, request: JobRequest) -> Job | None:
        """Return the job on the target; None when none was submitted."""
        return self.find_all([request])[0]

    def find_all(self, requests: Sequence[JobRequest]) -> list[Job | None]:
        """Return the jobs on the target, None for each that was never submitted, in one round trip."""
        job_folders = staging.look_all(self._transport, [(request, ()) for request in requests])
        return [self._job_in(request, job_folder) for request, job_folder in zip(requests, job_folders, strict=True)]

    def _job_in(self, request: JobRequest, job_folder: JobFolder) -> Job | None:
        submitted = recorded(self._for(request), job_folder)
        if submitted is None:
            return None
        return Job(
            submitted.id,
            specification(request, job_folder.directory),
            request,
            self._for(request),
            submitted.time,
            submitted.attempt,
        )

    def fetch_results(self, job: Job, result: JobResult, results: Path) -> FetchedResults:
        """Fetch the job's results to the controller; see ``results.fetch_results``.

        A job that was cancelled before it began, and a job array, have left their secrets to be removed here.
        """
        return self.fetch_all([Ended(job, result, results)])[0]

    def fetch_all(self, ended: Sequence[Ended]) -> list[FetchedResults]:
        """Fetch the results of several jobs as ``fetch_results`` does, small ones in one round trip."""
        for item in ended:
            if item.job.request.secret_environment and item.result.state in ENDS:
                ask(self._transport, f"rm -f {quote(f'{item.job.spec.directory}/{SECRETS}')}")
            attempts.put_aside(item.results / item.job.request.name, item.job, item.result)
        return fetch_all(self._transport, ended)

    def absent(self, request: JobRequest) -> bool:
        """Cancel the job, wait until it is gone, and remove its folder; return whether there was anything."""
        return removal.absent(self._transport, request, self._for(request), self._timeouts)

    def cancel(self, request: JobRequest) -> list[str]:
        """Cancel the job and wait until it has left the queue; return the ids of what was there. Its folder stays."""
        return removal.cancel(self._transport, request, self._for(request), self._timeouts)[1]

    def doomed(self, request: JobRequest) -> list[str]:
        """Return what ``absent`` would cancel and remove, in words; nothing is changed."""
        return removal.doomed(self._transport, request, self._for(request))

    def _ended_badly(self, job: Job, prepared: Prepared, retry: bool | None) -> JobResult | None:
        """Return how a job ended that is to be run again; None for one that goes on, has completed, or is to stay."""
        return self._ended_badly_all([(job, prepared)], retry)[1][0]

    def _ended_badly_all(
        self, jobs: Sequence[tuple[Job | None, Prepared]], retry: bool | None
    ) -> tuple[list[Job | None], list[JobResult | None]]:
        """Return ``_ended_badly`` for several jobs, some of which may not have been submitted.

        Before it come the jobs as they are then: another run may have made the next attempt meanwhile.
        """
        open_jobs: dict[str, Job] = {}
        for job, prepared in jobs:
            if job is None or not (prepared.request.options.retry if retry is None else retry):
                continue
            record = status.exit_of(job, prepared.job_folder.records)
            if record is None or record.state != "completed":
                open_jobs[job.spec.directory] = job
        ends: dict[str, JobResult] = {}
        current: dict[str, Job] = {}
        for group in _by_scheduler(list(open_jobs.values())):
            watch = Watch(self._transport, group, timeouts=self._timeouts, reporter=Notices(self._reporter))
            for result, job, records in zip(watch.settle(), watch.jobs, watch.records, strict=True):
                current[job.spec.directory] = job
                is_open = result.state == "lost" and records.begun  # it may have done its work: the user decides
                if result.state in ENDS and result.state != "completed" and not is_open:
                    ends[job.spec.directory] = result
        return (
            [None if job is None else current.get(job.spec.directory, job) for job, _ in jobs],
            [None if job is None else ends.get(job.spec.directory) for job, _ in jobs],
        )

    def _put_aside(self, prepared: Prepared, ended: JobResult, sources: Sequence[LocalSource]) -> None:
        """Put an attempt aside that has ended badly, once all that the next one needs is at hand."""
        files.source_uploads(prepared.request, sources)
        scheduler, job_folder = self._for(prepared.request), prepared.job_folder
        if ended.state in _QUEUED_FOR_EVER:
            left, said = queue.cancel(self._transport, scheduler, [ended.id], self._timeouts)
            if left:
                raise TargetError(f"job {left[0]} cannot be removed{f': {said}' if said else ''}: its folder stays")
        # The scheduler may have answered with another job than the one that ran; see ``Watch``.
        answered = read_id(scheduler, job_folder.records.id_text) if job_folder.records.id_text else None
        numbers = dict.fromkeys([ended.id, *([answered] if answered else [])])
        submission = Submission(self._transport, scheduler, prepared.spec, self._timeouts, self._reporter)
        if submission.put_aside(job_folder, list(numbers), files.paths_of(prepared.request)):
            self._reporter.notice(
                f"{status.sentence(ended)}; it is run again as attempt {ended.attempt + 1}, and what it left is in "
                f"{ended.directory}/attempts/{ended.attempt}"
            )

    def _check(self, prepared: Prepared) -> None:
        """Ask the scheduler whether it would take the job; JobError when it would not."""
        scheduler = self._for(prepared.request)
        if command := scheduler.check_command(prepared.spec):
            done = ask(self._transport, command, stdin=prepared.script.encode())
            if scheduler.is_silent(done):
                raise unreachable("the scheduler", done)
            if done.returncode:
                said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
                raise JobError(f"the scheduler would not accept the job: {said or f'exit code {done.returncode}'}")

    def _entry(self, prepared: Prepared, item: JobInput) -> Entry:
        """Return a job that is to be submitted with what it needs; InputError where that is not at hand."""
        submission = Submission(
            self._transport, self._for(prepared.request), prepared.spec, self._timeouts, self._reporter
        )
        records = prepared.job_folder.records
        if records.begun or (records.attempt and records.refused != records.attempt):
            return Entry(submission, prepared.spec, prepared.job_folder)  # A job may be running on these files.
        uploads = [
            files.script_upload(prepared.script),
            *files.document_uploads(prepared.request),
            *files.source_uploads(prepared.request, item.sources),
            *files.secret_uploads(prepared.request, item.secrets),
        ]
        return Entry(
            submission,
            prepared.spec,
            prepared.job_folder,
            files.changed(uploads, prepared.job_folder.there),
            item.realise,
        )

    def _recorded(self, prepared: Prepared) -> Job | None:
        submitted = recorded(self._for(prepared.request), prepared.job_folder)
        return None if submitted is None else self._job(prepared, submitted)

    def _job(self, prepared: Prepared, submitted: Submitted) -> Job:
        return Job(
            submitted.id,
            prepared.spec,
            prepared.request,
            self._for(prepared.request),
            submitted.time,
            submitted.attempt,
        )

    def _for(self, request: JobRequest) -> Scheduler:
        return self._scheduler or registry.get(request.scheduler)


def _by_scheduler(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield the jobs of each scheduler."""
    ordered = sorted(jobs, key=lambda job: job.scheduler.name)
    for _name, group in groupby(ordered, key=lambda job: job.scheduler.name):
        yield list(group)
