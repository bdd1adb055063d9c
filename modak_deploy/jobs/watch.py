"""Waiting: one spaced-out question for all jobs of a target, until each of them has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs import folder, status
from modak_deploy.jobs.folder import Records, is_same_job
from modak_deploy.jobs.job import Job, read_id
from modak_deploy.jobs.output import rest
from modak_deploy.jobs.queue import cancel
from modak_deploy.jobs.record import ExitRecord
from modak_deploy.jobs.remote import STEP_LIMIT, call
from modak_deploy.jobs.settings import Reporter, Timeouts
from modak_deploy.jobs.tuning import progress
from modak_deploy.jobs.written import BYTES, Written
from modak_deploy.model.job import ENDS, JobResult
from modak_deploy.schedulers.base import QueueState
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import encode

_GROWTH = 1.5
_NAP, _NAP_PER_JOB = 20, 2
"""Least hundredths of a second between two looks at the jobs' records on the target: for all, and for each job."""
_LONGEST = 3600
"""Seconds after which a longer watch makes no difference to the pauses between two looks."""
_HELD_BACK = 4096
"""Bytes of output without a line end that are kept for the next time."""
_ANSWER = 65536
"""Bytes of output that come with one answer, as in ``sh/poll.sh``."""


@dataclass
class _Watched:
    job: Job
    state: QueueState | None = None
    records: Records = field(default_factory=Records)
    asks: int = 0
    """How many times in a row queue and records did not fit together."""
    since: float = 0.0
    offset: int = 0
    reported: float = 0.0
    tasks: dict[str, QueueState] = field(default_factory=dict)
    """What the queue said last of each task of an array."""
    end: QueueState | None = None
    progress: float | None = None
    """When its progress was told last."""
    written: Written | None = None
    """What its output tells of its progress."""
    superseded: float | None = None
    """When another run was seen to have put this attempt aside."""


@dataclass(frozen=True)
class _Reply:
    """One answer: the queue's word on each job, None where the scheduler itself was silent, and each job's records."""

    queue: Mapping[str, QueueState] | None
    parts: Sequence[Mapping[str, str]]
    silence: str = ""


class Watch:
    """Follows jobs of one target and one scheduler; its questions do not grow with their number."""

    def __init__(
        self,
        transport: Transport,
        jobs: Sequence[Job],
        *,
        timeouts: Timeouts,
        reporter: Reporter,
        follow: int = 0,
    ) -> None:
        self._transport = transport
        self._timeouts = timeouts
        self._reporter = reporter
        self._all = [_Watched(job, offset=int(follow), written=_written(job)) for job in jobs]
        self._silent_since: float | None = None
        self._last_error = ""
        self._silence = ""
        """Why the target or its scheduler told nothing when it was asked last."""
        self._limit = timeouts.answer
        self._since = timeouts.clock()

    def wait(self, *, timeout: float | None = None, at_once: bool = False) -> list[JobResult]:
        """Return how the jobs ended, in their order; nothing of no jobs.

        ``at_once`` asks before the first pause, for jobs that were submitted earlier. JobError when they have not all
        ended after ``timeout`` seconds, TargetError when the target was silent for too long; the jobs go on.
        """
        if not self._all:
            return []
        clock = self._timeouts.clock
        deadline = None if timeout is None else clock() + timeout
        polling = self._all[0].job.request.target.polling
        pause = polling.first
        waiting = self.ask() if at_once else self._all
        if not waiting:
            return self._ended()
        names = ", ".join(f"{item.job.id} ({item.job.spec.tag})" for item in waiting)
        self._reporter.notice(
            f"waiting for job {names}; stopping this does not stop it, and the same run follows it again"
        )
        while True:
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                raise JobError(_unfinished(waiting, timeout or 0))
            over = self._over(waiting)
            span = pause if over else self._span(waiting, pause, polling.maximum)
            span = span if left is None else min(span, left)
            linger = 0 if over else int(min(span, self._timeouts.linger))
            self._timeouts.sleep(span - linger)
            pause = min(pause * _GROWTH, polling.maximum)
            if not (waiting := self.ask(linger)):
                return self._ended()
            if self._over(waiting) and not over:
                # What is missing is the scheduler's word alone, which comes soon for one job and later for many.
                pause = min(self._timeouts.pause * min(len(waiting), 4) / 4, pause)

    def _span(self, waiting: Sequence[_Watched], pause: float, most: float) -> float:
        """Return how long to wait for the next question.

        While all jobs run, the target itself looks for their ends, so that asking often would only load the scheduler.
        """
        run = all(item.state is not None and item.state.state == "running" and not item.offset for item in waiting)
        return max(pause, min(self._timeouts.linger, most)) if run else pause

    def see(self) -> list[JobResult]:
        """Return the jobs as they are now; asking again where queue and records do not fit together.

        TargetError where target or scheduler do not answer, and no record tells how a job ended.
        """
        begun = self._timeouts.clock()
        while unclear := [item for item in self.ask() if item.state is None]:
            silent = self._silent_since is not None and self._timeouts.clock() - begun >= self._timeouts.lost
            if silent and any(status.exit_of(item.job, item.records) is None for item in unclear):
                raise TargetError(f"no status of the job: {self._silence}")
            self._timeouts.sleep(self._timeouts.pause)
        return self.results()

    def settle(self) -> list[JobResult]:
        """Return the jobs as they are, once each of them is seen in the queue or has ended for certain."""
        while any(item.state is None for item in self.ask()):
            self._timeouts.sleep(self._timeouts.pause)
        return self.results()

    @property
    def jobs(self) -> list[Job]:
        """The jobs that are followed now: those of the next attempts where others made them, in the same order."""
        return [item.job for item in self._all]

    @property
    def records(self) -> list[Records]:
        """What the jobs had written down when they were last asked for, in the same order."""
        return [item.records for item in self._all]

    def ask(self, linger: int = 0) -> list[_Watched]:
        """Ask once, tell the reporter what has changed, and return the jobs that have not ended.

        The target itself waits for up to ``linger`` seconds, until all jobs have written down their end.
        """
        waiting = [watched for watched in self._all if watched.end is None]
        if not waiting:
            return []
        reply = self._reply(waiting, linger)
        self._note_silence(reply)
        if reply is not None:
            for watched, parts in zip(waiting, reply.parts, strict=True):
                self._take(watched, parts, reply)
        return [watched for watched in waiting if watched.end is None]

    def results(self) -> list[JobResult]:
        """Return the jobs as they were last seen."""
        unseen = QueueState("queued", reason="it has just been submitted")
        return [status.result(item.job, _shown(item) or unseen, item.records) for item in self._all]

    def _ended(self) -> list[JobResult]:
        """Return how the jobs ended; those that can never run do not stay in the queue, where they might run after all.

        Torque holds a job for ever whose dependency cannot be satisfied, OpenPBS keeps one that can never run.
        """
        left = [item for item in self._all if item.end is not None and item.end.in_queue]
        if left:
            scheduler, ids = left[0].job.scheduler, [item.job.id for item in left]
            try:
                stay, said = cancel(self._transport, scheduler, ids, self._timeouts)
            except TargetError as error:
                stay, said = ids, str(error)
            for item in left:
                if item.end is not None and item.job.id not in stay:
                    reason = f"{item.end.reason}; it has been removed from the queue"
                    item.end = replace(item.end, reason=reason, in_queue=False)
            if stay:
                self._reporter.notice(f"job {', '.join(stay)} cannot be removed from the queue: {said or 'it stays'}")
        return self.results()

    def _over(self, waiting: Sequence[_Watched]) -> bool:
        """Return whether all jobs have written down their end, as far as is known."""
        return all(len(watched.records.exits) >= status.ends_of(watched.job) for watched in waiting)

    def _reply(self, waiting: Sequence[_Watched], linger: int) -> _Reply | None:
        """Return the answer, or None when the target was silent."""
        scheduler = waiting[0].job.scheduler
        ids = [watched.job.id for watched in waiting]
        lines = [
            f"{item.job.spec.directory}\n{item.job.spec.output}\n{item.offset}\n{status.ends_of(item.job)}\n"
            f"{BYTES if item.job.request.progress else 0}\n"
            for item in waiting
        ]
        limit, begun = linger + self._limit, self._timeouts.clock()
        watched = int(100 * min(begun - self._since, _LONGEST))
        nap = max(_NAP, len(waiting) * _NAP_PER_JOB)
        arguments = [scheduler.status_command(ids), str(linger), str(watched), str(nap), scheduler.end_message]
        try:
            answer = call(self._transport, "poll", arguments, stdin=encode("".join(lines)), limit=limit)
            parts = list(answer.groups("job."))
            if len(parts) != len(waiting):
                raise TargetError(f"the target reports {len(parts)} of {len(waiting)} jobs: {excerpt(answer.stderr)}")
        except TargetError as error:
            self._last_error = str(error)
            if self._timeouts.clock() - begun >= limit:  # gone without a word, or slow
                self._limit = min(2 * self._limit, STEP_LIMIT)
            return None
        try:
            return _Reply(scheduler.parse_status(answer.completed("status", "code"), ids), parts)
        except TargetError as error:
            return _Reply(None, parts, str(error))

    def _note_silence(self, reply: _Reply | None) -> None:
        now = self._timeouts.clock()
        if reply is not None and reply.queue is not None:
            if self._silent_since is not None:
                self._reporter.notice("the target answers again")
            self._silent_since = None
            return
        why = self._silence = reply.silence if reply else self._last_error
        if self._silent_since is None:
            self._silent_since = now
            limit = f"{self._timeouts.outage:g}"
            self._reporter.notice(f"no word of the job, asking again for up to {limit} s: {why}")
        elif now - self._silent_since > self._timeouts.outage:
            raise TargetError(f"no status of the job for {now - self._silent_since:.0f} s; it may still run: {why}")

    def _take(self, watched: _Watched, parts: Mapping[str, str], reply: _Reply) -> None:
        records = folder.parse(parts)
        if self._is_superseded(watched, records):
            return
        watched.records = records
        self._follow_runner(watched)
        record = status.exit_of(watched.job, watched.records)
        queue = None if reply.queue is None else reply.queue.get(watched.job.id)
        watched.tasks.update(queue.tasks if queue else {})
        if self._is_certain(watched, queue, record, answered=reply.queue is not None):
            alive = queue is not None and queue.state not in ENDS
            watched.end = status.of_job(watched.job, None if alive else queue, watched.records, watched.tasks)
        self._follow(watched, parts.get("output", ""))
        self._tell_progress(watched, parts.get("progress", ""), parts.get("written", ""))
        shown = watched.end or queue
        if shown is None or (watched.end is None and shown.state in ENDS and not shown.in_queue):
            return
        now = self._timeouts.clock()
        if _differs(shown, watched.state) or now - watched.reported >= self._timeouts.remind:
            watched.reported = now
            self._reporter.state(watched.job, shown)
        watched.state = shown

    def _follow_runner(self, watched: _Watched) -> None:
        """Follow the job that runs the application, where that is another one than the scheduler answered with."""
        runner = watched.records.runner
        if runner is None or is_same_job(watched.job.id, runner):
            return
        number = watched.job.scheduler.id_of(runner)
        self._reporter.notice(f"job {number}, of an earlier attempt to submit it, runs in place of {watched.job.id}")
        watched.job = replace(watched.job, id=number)
        watched.state, watched.asks, watched.tasks = None, 0, {}

    def _is_superseded(self, watched: _Watched, records: Records) -> bool:
        """Follow the next attempt from now on where another run makes one, because this one has ended badly."""
        job, clock = watched.job, self._timeouts.clock
        if records.number <= job.attempt:
            return False
        number = read_id(job.scheduler, records.id_text) if records.id_text else None
        if number is None:
            if watched.superseded is None:
                watched.superseded = clock()
            return clock() - watched.superseded < self._timeouts.submission
        self._reporter.notice(
            f"job {job.id} has ended, and another run has submitted it again as job {number}: that is followed now"
        )
        submitted = records.intent.time if records.intent else None
        watched.job = replace(job, id=number, submitted=submitted, attempt=records.number)
        watched.state, watched.asks, watched.offset, watched.tasks = None, 0, int(bool(watched.offset)), {}
        return True

    def _is_certain(
        self, watched: _Watched, queue: QueueState | None, record: ExitRecord | None, *, answered: bool
    ) -> bool:
        """Return whether the job has ended for certain, counting the answers in which queue and record differ.

        A record may be late (NFS), a scheduler silent, slow to list a job or slow to let it go, and a job may be lost.
        """
        asks, least = self._timeouts.asks, self._timeouts.lost
        if queue is not None and queue.state in ENDS:
            forgotten = 0 < len(queue.tasks) < status.ends_of(watched.job)
            if queue.state == "never_starts" and record is None:
                # It may pass: what a server says that was just started, and whose nodes have not reported yet.
                least = self._timeouts.hopeless
            elif record is not None or (queue.state not in ("completed", "failed") and not forgotten):
                return True
        elif queue is not None:
            if record is None or record.state not in ("completed", "failed"):
                watched.asks = 0
                return False
            # Of a failure the queue may tell the cause in the end, such as used up memory.
            least = self._timeouts.finishing if record.state == "completed" else self._timeouts.outage
        elif record is not None:
            if answered or record.state == "completed":
                return True
        elif not answered:
            return False
        now = self._timeouts.clock()
        if watched.asks == 0:
            watched.since = now
        watched.asks += 1
        return watched.asks >= asks and now - watched.since >= least

    def _tell_progress(self, watched: _Watched, counted: str, written: str) -> None:
        """Tell how far a running job is, by its output or as the launcher counts: once known, and then now and then."""
        if watched.end is not None:
            return
        launch, now = watched.job.request.launch, self._timeouts.clock()
        if watched.written is not None:  # each time: the rate needs two numbers
            text = watched.written.observe(written, now)
        else:
            text = progress(counted, launch.units) if launch is not None and counted else None
        if text is None or (watched.progress is not None and now - watched.progress < self._timeouts.remind):
            return
        watched.progress = now
        self._reporter.notice(f"job {watched.job.id}: {text}")

    def _follow(self, watched: _Watched, text: str) -> None:
        """Show what a followed job has written since, and all of it where that is more than fits into one answer."""
        if not watched.offset or not text:
            return
        if len(encode(text)) < _ANSWER:
            self._show(watched, text)
            return
        self._show(watched, text[: text.rfind("\n") + 1] or text)
        try:
            for more in rest(self._transport, watched.job.spec.output, watched.offset):
                self._show(watched, more)
        except TargetError as error:
            if watched.end is not None:  # else it is asked for again
                self._reporter.notice(f"the rest of the output is not shown: {error}")

    def _show(self, watched: _Watched, text: str) -> None:
        if watched.end is None:
            cut = text.rfind("\n") + 1
            text = text[:cut] if cut or len(text) < _HELD_BACK else text
        if text:
            watched.offset += len(encode(text))
            self._reporter.output(watched.job, text)


def _written(job: Job) -> Written | None:
    request = job.request
    return None if request.progress is None else Written(request.progress, request.units)


def _shown(item: _Watched) -> QueueState | None:
    state = item.end or item.state
    if state is not None and state.in_queue:
        return replace(state, reason=f"{state.reason}; it is still in the queue")
    return state


def _differs(new: QueueState, old: QueueState | None) -> bool:
    # Another estimate of the start is no news; that there is one at last, is.
    return old is None or (new.state, new.reason) != (old.state, old.reason) or bool(new.start and not old.start)


def _unfinished(waiting: Sequence[_Watched], timeout: float) -> str:
    first = waiting[0]
    state = first.state.state if first.state else "not seen yet"
    others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return f"job {first.job.id}{others} is {state} after {timeout:g} s of waiting and goes on: run again to follow it"
