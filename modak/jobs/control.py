"""A job from its Plan to its results: what the Ansible modules and the command line call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modak.errors import JobError, TargetError
from modak.jobs import attempts, bringing, files, staging, verdict
from modak.jobs.bringing import Brought
from modak.jobs.files import LocalSource
from modak.jobs.job import PLAN, SCRIPT, Job, specification
from modak.jobs.remote import ask
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
from modak.transport.base import Transport

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
        bringing.declared(plan)
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
            self._stage(prepared, sources, realise)
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

    def find(self, plan: Plan) -> Job | None:
        """Return the Plan's job on the target; None when none was submitted."""
        place = staging.look(self._transport, plan)
        known = recorded(self._for(plan), place)
        if known is None:
            return None
        return Job(known.id, specification(plan, place.directory), plan, self._for(plan), known.time, known.attempt)

    def bring(self, job: Job, result: JobResult, results: Path) -> Brought:
        """Bring the job's results to the controller; see ``bringing.bring``."""
        attempts.put_aside(results / job.plan.name, job, result)
        return bringing.bring(self._transport, job, result, results)

    def absent(self, plan: Plan) -> bool:
        """Cancel the Plan's job, wait until it is gone, and remove its folder; return whether there was anything."""
        scheduler = self._for(plan)
        place = self._certain(plan, scheduler)
        alive = self._alive(scheduler, _ids(scheduler, place))
        if alive:
            self._cancel(scheduler, alive)
        if place.exists:
            staging.remove(self._transport, place.directory, plan.tag())
        return bool(alive) or place.exists

    def doomed(self, plan: Plan) -> list[str]:
        """Return what ``absent`` would cancel and remove, in words; nothing is changed."""
        scheduler = self._for(plan)
        place = staging.look(self._transport, plan, ask=scheduler)
        known = recorded(scheduler, place)
        where = f"the folder {place.directory}{f' of job {known.id}' if known else ''}"
        alive = self._alive(scheduler, _ids(scheduler, place))
        return [*(f"job {number}" for number in alive), *([where] if place.exists else [])]

    def _certain(self, plan: Plan, scheduler: Scheduler) -> Place:
        """Return the job's folder once an attempt without an answer is old enough to have shown in the queue."""
        while True:
            place = staging.look(self._transport, plan, ask=scheduler)
            intent = place.records.intent
            if intent is None or recorded(scheduler, place) or place.found:
                return place
            left = self._patience.settle - (place.now - intent.time)
            if not 0 < left <= self._patience.settle:
                return place
            self._patience.sleep(left)

    def _alive(self, scheduler: Scheduler, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        states = scheduler.parse_status(ask(self._transport, scheduler.status_command(ids)), ids)
        return [number for number in ids if number in states and states[number].state not in ENDS - _QUEUED_FOR_EVER]

    def _cancel(self, scheduler: Scheduler, ids: Sequence[str]) -> None:
        done = ask(self._transport, scheduler.cancel_command(ids))
        begun = self._patience.clock()
        while left := self._alive(scheduler, ids):
            if self._patience.clock() - begun > self._patience.cancel:
                said = " ".join(done.stderr.split())
                raise TargetError(f"job {left[0]} does not go away{f': {said}' if said else ''}: its folder stays")
            self._patience.sleep(self._patience.pause)

    def _ended_badly(self, job: Job, prepared: Prepared, retry: bool | None) -> JobResult | None:
        """Return how a job ended that is to be run again; None for one that goes on, has completed, or is to stay."""
        if not (prepared.plan.job.retry if retry is None else retry):
            return None
        record = verdict.exit_of(job, prepared.place.records)
        if record is not None and record.state == "completed":
            return None
        watch = Watch(self._transport, [job], patience=self._patience, reporter=Notices(self._reporter))
        (result,) = watch.settle()
        return result if result.state in ENDS and result.state != "completed" else None

    def _put_aside(self, prepared: Prepared, ended: JobResult, sources: Sequence[LocalSource]) -> None:
        """Put an attempt aside that has ended badly, once all that the next one needs is at hand."""
        files.source_uploads(prepared.plan, sources)
        scheduler = self._for(prepared.plan)
        if ended.state in _QUEUED_FOR_EVER:
            self._cancel(scheduler, [ended.id])
        submission = Submission(self._transport, scheduler, prepared.spec, self._patience, self._reporter)
        if submission.put_aside(prepared.place, ended.id, files.paths_of(prepared.plan)):
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

    def _stage(self, prepared: Prepared, sources: Sequence[LocalSource], realise: Realise | None) -> None:
        records = prepared.place.records
        if records.attempt and records.refused != records.attempt:
            return  # A job may be running on these files.
        uploads = [
            files.script_upload(prepared.script),
            files.plan_upload(prepared.plan),
            *files.source_uploads(prepared.plan, sources),
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
