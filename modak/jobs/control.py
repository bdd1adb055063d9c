"""A job from its Plan to its results: what the Ansible modules and the command line call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modak.errors import JobError, TargetError
from modak.jobs import attempts, files, queue, staging, verdict
from modak.jobs.files import LocalSource
from modak.jobs.job import PLAN, SCRIPT, SECRETS, Job, read_id, specification
from modak.jobs.remote import ask
from modak.jobs.results import FetchedResults, declared_outputs, fetch_results
from modak.jobs.script import render
from modak.jobs.settings import Notices, Patience, Reporter, Silent
from modak.jobs.staging import Place
from modak.jobs.submission import Submission, Submitted, recorded
from modak.jobs.watch import Watch
from modak.model.job import ENDS, JobResult, JobState
from modak.model.plan import Plan
from modak.schedulers import registry
from modak.schedulers.base import JobSpec, Scheduler
from modak.schedulers.states import unreachable
from modak.shell import quote
from modak.transport.base import Transport

Secrets = Callable[[], bytes]
"""Returns the lines for the job's file of secrets; called only where the job is about to be submitted."""
_QUEUED_FOR_EVER: frozenset[JobState] = frozenset({"dependency_never_satisfied", "never_starts"})
"""Ends of jobs that are in the queue all the same, until somebody cancels them."""
Realise = Callable[[str], None]
"""Called with the job's folder before the job is submitted, to bring what it needs besides its files."""


@dataclass(frozen=True)
class Prepared:
    """A job and its script; ``place`` is its folder as it was found."""

    plan: Plan
    spec: JobSpec
    script: str
    place: Place


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
        patience: Patience | None = None,
        reporter: Reporter | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """``scheduler`` is asked instead of the one that each Plan names."""
        self._transport = transport
        self._patience = patience or Patience()
        self._reporter = reporter or Silent()
        self._scheduler = scheduler

    def prepare(self, plan: Plan, template: str | None = None) -> Prepared:
        """Look at the job's folder and render its script, in one round trip."""
        declared_outputs(plan)
        place = staging.look(self._transport, plan, [PLAN, SCRIPT, *files.paths_of(plan)])
        spec = specification(plan, place.directory)
        return Prepared(plan, spec, render(spec, plan, self._for(plan), template), place)

    def preview(
        self, plan: Plan, template: str | None = None, *, again: bool = False, retry: bool | None = None
    ) -> Preview:
        """Return what ``present`` would do, and ask the scheduler whether it would take the job; nothing is changed.

        ``again`` asks it for a job that is there already too.
        """
        scheduler = self._for(plan)
        prepared = self.prepare(plan, template)
        known = recorded(scheduler, prepared.place)
        job = None if known is None else self._job(prepared, known)
        ended = None if job is None or again else self._ended_badly(job, prepared, retry)
        if job is None or again or ended is not None:
            self._check(prepared)
        return Preview(prepared.script, job, ended)

    def present(
        self,
        plan: Plan,
        sources: Sequence[LocalSource] = (),
        *,
        template: str | None = None,
        realise: Realise | None = None,
        secrets: Secrets | None = None,
        retry: bool | None = None,
    ) -> Present:
        """Submit the Plan's job, unless it has been submitted before.

        A job that has ended in any other way than completed is submitted again as its next attempt, unless ``retry``,
        or ``job.retry`` of the Plan where that is None, is false.
        """
        scheduler = self._for(plan)
        prepared = self.prepare(plan, template)
        known = recorded(scheduler, prepared.place)
        ended = None if known is None else self._ended_badly(self._job(prepared, known), prepared, retry)
        if ended is not None:
            self._put_aside(prepared, ended, sources)
            prepared = self.prepare(plan, template)
            known = recorded(scheduler, prepared.place)  # another run may have been faster
        if known is None:
            self._stage(prepared, sources, realise, secrets)
            submission = Submission(self._transport, scheduler, prepared.spec, self._patience, self._reporter)
            known = submission.submit(prepared.place)
        return Present(self._job(prepared, known), prepared.script, known.made, ended if known.made else None)

    def wait(
        self, present: Sequence[Present], *, timeout: float | None = None, follow: bool = False
    ) -> list[JobResult]:
        """Return how the jobs of one scheduler ended, in their order; see ``Watch.wait``."""
        jobs = [item.job for item in present]
        watch = Watch(self._transport, jobs, patience=self._patience, reporter=self._reporter, follow=follow)
        return watch.wait(timeout=timeout, at_once=not all(item.made for item in present))

    def see(self, job: Job) -> JobResult:
        """Return the job as it is now, in one round trip."""
        watch = Watch(self._transport, [job], patience=self._patience, reporter=Silent())
        watch.ask()
        return watch.results()[0]

    def is_alive(self, job: Job) -> bool:
        """Return whether the scheduler has the job and it has not ended."""
        return bool(queue.alive(self._transport, job.scheduler, [job.id]))

    def notice(self, text: str) -> None:
        """Tell the reporter something that a user should know, as one sentence."""
        self._reporter.notice(text)

    def find(self, plan: Plan) -> Job | None:
        """Return the Plan's job on the target; None when none was submitted."""
        place = staging.look(self._transport, plan)
        known = recorded(self._for(plan), place)
        if known is None:
            return None
        return Job(known.id, specification(plan, place.directory), plan, self._for(plan), known.time, known.attempt)

    def fetch_results(self, job: Job, result: JobResult, results: Path) -> FetchedResults:
        """Fetch the job's results to the controller; see ``results.fetch_results``.

        A job that was cancelled before it began, and a job array, have left their secrets to be removed here.
        """
        if job.plan.secrets and result.state in ENDS:
            ask(self._transport, f"rm -f {quote(f'{job.spec.directory}/{SECRETS}')}")
        attempts.put_aside(results / job.plan.name, job, result)
        return fetch_results(self._transport, job, result, results)

    def absent(self, plan: Plan) -> bool:
        """Cancel the Plan's job, wait until it is gone, and remove its folder; return whether there was anything."""
        scheduler = self._for(plan)
        while True:
            place = self._certain(plan, scheduler)
            ids = _ids(scheduler, place)
            if alive := queue.alive(self._transport, scheduler, ids):
                left, said = queue.cancel(self._transport, scheduler, alive, self._patience)
                if left:
                    raise TargetError(f"job {left[0]} does not go away{f': {said}' if said else ''}: its folder stays")
            if not place.exists or self._remove(place, plan, known=bool(ids)):
                return bool(alive) or place.exists

    def _remove(self, place: Place, plan: Plan, *, known: bool) -> bool:
        wait = self._patience.lock
        return staging.remove(self._transport, place.directory, plan.tag(), known=known, wait=wait)

    def doomed(self, plan: Plan) -> list[str]:
        """Return what ``absent`` would cancel and remove, in words; nothing is changed."""
        scheduler = self._for(plan)
        place = staging.look(self._transport, plan, ask=scheduler)
        known = recorded(scheduler, place)
        folder = f"the folder {place.directory}{f' of job {known.id}' if known else ''}"
        alive = queue.alive(self._transport, scheduler, _ids(scheduler, place))
        return [*(f"job {number}" for number in alive), *([folder] if place.exists else [])]

    def _certain(self, plan: Plan, scheduler: Scheduler) -> Place:
        """Return the job's folder once an attempt without an answer is old enough to have shown in the queue.

        How old it is tells this machine's own clock, which does not jump, and not the target's.
        """
        begun = self._patience.clock()
        while True:
            place = staging.look(self._transport, plan, ask=scheduler)
            if place.records.intent is None or recorded(scheduler, place) or place.found:
                return place
            left = self._patience.settle - (self._patience.clock() - begun)
            if left <= 0:
                return place
            self._patience.sleep(left)

    def _ended_badly(self, job: Job, prepared: Prepared, retry: bool | None) -> JobResult | None:
        """Return how a job ended that is to be run again; None for one that goes on, has completed, or is to stay."""
        if not (prepared.plan.job.retry if retry is None else retry):
            return None
        record = verdict.exit_of(job, prepared.place.records)
        if record is not None and record.state == "completed":
            return None
        watch = Watch(self._transport, [job], patience=self._patience, reporter=Notices(self._reporter))
        (result,) = watch.settle()
        if result.state == "lost" and prepared.place.records.begun:
            return None  # it may have done its work: the user looks, and has it restarted
        return result if result.state in ENDS and result.state != "completed" else None

    def _put_aside(self, prepared: Prepared, ended: JobResult, sources: Sequence[LocalSource]) -> None:
        """Put an attempt aside that has ended badly, once all that the next one needs is at hand."""
        files.source_uploads(prepared.plan, sources)
        scheduler, place = self._for(prepared.plan), prepared.place
        if ended.state in _QUEUED_FOR_EVER:
            left, said = queue.cancel(self._transport, scheduler, [ended.id], self._patience)
            if left:
                raise TargetError(f"job {left[0]} does not go away{f': {said}' if said else ''}: its folder stays")
        # The scheduler may have answered with another job than the one that ran; see ``Watch``.
        answered = read_id(scheduler, place.records.id_text) if place.records.id_text else None
        numbers = dict.fromkeys([ended.id, *([answered] if answered else [])])
        submission = Submission(self._transport, scheduler, prepared.spec, self._patience, self._reporter)
        if submission.put_aside(place, list(numbers), files.paths_of(prepared.plan)):
            self._reporter.notice(
                f"{verdict.sentence(ended)}; it is run again as attempt {ended.attempt + 1}, and what it left is in "
                f"{ended.directory}/attempts/{ended.attempt}"
            )

    def _check(self, prepared: Prepared) -> None:
        """Ask the scheduler whether it would take the job; JobError when it would not."""
        scheduler = self._for(prepared.plan)
        if command := scheduler.check_command(prepared.spec):
            done = ask(self._transport, command, stdin=prepared.script.encode())
            if scheduler.is_silent(done):
                raise unreachable("the scheduler", done)
            if done.returncode:
                said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
                raise JobError(f"the scheduler would not take the job: {said or f'exit code {done.returncode}'}")

    def _stage(
        self, prepared: Prepared, sources: Sequence[LocalSource], realise: Realise | None, secrets: Secrets | None
    ) -> None:
        records = prepared.place.records
        if records.begun or (records.attempt and records.refused != records.attempt):
            return  # A job may be running on these files.
        uploads = [
            files.script_upload(prepared.script),
            files.plan_upload(prepared.plan),
            *files.source_uploads(prepared.plan, sources),
            *files.secret_uploads(prepared.plan, secrets),
        ]
        staging.stage(self._transport, prepared.spec, files.changed(uploads, prepared.place.there))
        if realise is not None:
            realise(prepared.spec.directory)

    def _job(self, prepared: Prepared, known: Submitted) -> Job:
        return Job(known.id, prepared.spec, prepared.plan, self._for(prepared.plan), known.time, known.attempt)

    def _for(self, plan: Plan) -> Scheduler:
        return self._scheduler or registry.get(plan.scheduler)


def _ids(scheduler: Scheduler, place: Place) -> list[str]:
    """Return the jobs that the folder or the scheduler tells of."""
    known = recorded(scheduler, place)
    return list(dict.fromkeys([*([known.id] if known else []), *(place.found or [])]))
