"""Submitted exactly once: what is done when a step's answer says that it was not the first.

The step itself (``sh/submit.sh``) holds a lock, writes down the attempt, submits, and writes down the answer. Here it
is decided what an attempt without an answer means: the job that the scheduler's answer names, where that reached the
disk; a job that has begun by its own word; a job that carries the tag and was not there before. Where there is none,
and this controller has waited long enough for it to show, by its own clock, it is made again. Should two jobs come of
it in the end, the job script lets one alone run the application (``state/start``), and that one is followed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs import folder
from modak_deploy.jobs.folder import ADOPTED, Records, is_same_job
from modak_deploy.jobs.job import read_id
from modak_deploy.jobs.queue import is_alive
from modak_deploy.jobs.remote import STEP_LIMIT, Answer, Step, StepError, ask, carry_out, token
from modak_deploy.jobs.settings import Reporter, Timeouts
from modak_deploy.jobs.staging import JobFolder
from modak_deploy.schedulers import options
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.transport.base import Completed, Transport
from modak_deploy.transport.local import encode

NOBODY = "0"
"""The number of a job that no scheduler knows."""


@dataclass(frozen=True)
class Submitted:
    """The job's id, and whether this call made the job."""

    id: str
    time: float | None
    """Seconds since the epoch on the target."""
    made: bool
    attempt: int = 1
    """How often the job has been submitted, this time included."""


@dataclass(frozen=True)
class _Next:
    """What the step is to do, and which attempt it is to find."""

    mode: str = "ask"
    attempt: str = ""


class Submission:
    """One job on its way into the queue."""

    def __init__(
        self, transport: Transport, scheduler: Scheduler, spec: JobSpec, timeouts: Timeouts, reporter: Reporter
    ) -> None:
        self._transport = transport
        self.scheduler = scheduler
        self._spec = spec
        self._timeouts = timeouts
        self._reporter = reporter
        self._made = False
        self._unanswered: tuple[str, float] | None = None
        """The attempt without an answer that was seen last, and when that was, by a clock that does not jump."""

    def step(self, *, find: str | None = None, wait: float | None = None) -> Step:
        """Return the first step of ``submit``, to be carried out with others.

        ``find`` is asked instead of the scheduler's own command; ``wait`` is how long another controller is waited for.
        """
        return self._step(_Next(), find=find, wait=wait)

    def submit(self, job_folder: JobFolder, answer: Answer | None = None) -> Submitted:
        """Submit the staged job, or find the one that has been submitted; JobError when the scheduler refuses it.

        ``answer`` is that of ``step``, where it has been carried out.
        """
        begun = self._timeouts.clock()
        following = _Next()
        while True:
            try:
                answer = answer or self._carry_out(following)
                result = self._understand(answer, job_folder)
                answer = None
            except StepError:
                raise
            except TargetError as error:
                answer = None
                # Nothing is known of this attempt: the next one looks first.
                if self._timeouts.clock() - begun > self._timeouts.submission:
                    raise
                self._reporter.notice(f"the submission is tried again: {error}")
                self._timeouts.sleep(self._timeouts.pause)
                following = _Next()
                continue
            if isinstance(result, Submitted):
                return result
            if result is None:
                if self._timeouts.clock() - begun > self._timeouts.submission:
                    raise TargetError(
                        f"another run keeps the job's lock in {self._spec.directory}/state: try again later"
                    )
                self._timeouts.sleep(self._timeouts.pause)
                result = _Next()
            following = result

    def put_aside(self, job_folder: JobFolder, numbers: Sequence[str], keep: Sequence[str]) -> bool:
        """Put the attempt in ``job_folder``, the jobs ``numbers`` of which one has run and ended, aside.

        Return False when another run has been here since. The inputs ``keep``, by their paths below the job's folder,
        stay where they are.
        """
        begun = self._timeouts.clock()
        stdin = encode("".join(f"{path}\n" for path in keep))
        following = _Next(f"again:{','.join(numbers)}", job_folder.records.attempt)
        while (outcome := self._put_aside(following, stdin).text("outcome")) == "busy":
            if self._timeouts.clock() - begun > self._timeouts.submission:
                raise TargetError(f"another run keeps the job's lock in {self._spec.directory}/state: try again later")
            self._timeouts.sleep(self._timeouts.pause)
        return outcome == "again"

    def find_command(self) -> str:
        """Return the command that lists the scheduler's jobs with this tag."""
        return self.scheduler.find_command(self._spec.tag, self._spec.name)

    def _put_aside(self, following: _Next, stdin: bytes) -> Answer:
        return self._carry_out(following, library=["leftover", "again"], stdin=stdin)

    def _carry_out(self, following: _Next, *, library: Sequence[str] = (), stdin: bytes = b"") -> Answer:
        step = self._step(following, library=library, stdin=stdin)
        return carry_out(self._transport, [step], limit=self.limit)[0]

    @property
    def limit(self) -> float:
        """How many seconds a step may take: it asks the scheduler up to three times."""
        return self._timeouts.lock + 3 * self._timeouts.accept + STEP_LIMIT

    def _step(
        self,
        following: _Next,
        *,
        library: Sequence[str] = (),
        stdin: bytes = b"",
        find: str | None = None,
        wait: float | None = None,
    ) -> Step:
        submit = self.scheduler.submit_command(self._spec)
        tasks = options.array(self._spec, self.scheduler.name)
        ranges = ",".join(f"{first}-{last}:{step}" for first, last, step in tasks.ranges) if tasks else ""
        lock = self._timeouts.lock if wait is None else wait
        arguments = [self._spec.directory, token(), following.attempt, following.mode, ranges]
        arguments += [str(ceil(lock)), str(ceil(self._timeouts.accept)), find or self.find_command(), submit]
        return Step("submit", arguments, stdin, ["lock", *library])

    def _understand(self, answer: Answer, job_folder: JobFolder) -> Submitted | _Next | None:
        """Return the end, what to do next, or None to come back later."""
        records = folder.parse(dict(answer.parts))
        match answer.text("outcome"):
            case "submitted":
                self._made = True
                return self._recorded(records)
            case "known":
                return self._recorded(records)
            case "refused":
                return self._refused(answer, records)
            case "changed":
                return self._examined(answer, records)
            case "found":
                return self._stranger(answer, job_folder, records)
        return None

    def _recorded(self, records: Records) -> Submitted | _Next:
        """Read the recorded id; where it is none, look for the job by its tag."""
        if (number := _of_records(self.scheduler, records)) is not None:
            return Submitted(number, records.intent.time if records.intent else None, self._made, records.number)
        done = ask(self._transport, self.find_command())
        if new := self._new(self.scheduler.parse_find(done, self._spec.tag), records):
            return _Next(f"id:{ADOPTED}{new[0]}", records.attempt)
        raise JobError(
            f"the scheduler's answer {(records.id_text or '')[:200]!r} names no job, and no job carries the tag "
            f"{self._spec.tag}"
        )

    def _refused(self, answer: Answer, records: Records) -> _Next:
        """Believe a refusal only where no job has come of it."""
        self._made = True
        if adopted := self._adopted(answer, records):
            return adopted
        number = self.scheduler.parse_submit(answer.completed("out", "code", "err"))
        return _Next(f"id:{ADOPTED}{number}", records.attempt)

    def _examined(self, answer: Answer, records: Records) -> _Next:
        """Decide what became of an earlier attempt, from which there is no answer."""
        if records.intent is None:
            return _Next()
        if adopted := self._adopted(answer, records):
            return adopted
        now = self._timeouts.clock()
        if self._unanswered is None or self._unanswered[0] != records.attempt:
            self._unanswered = (records.attempt, now)
        left = self._timeouts.settle - (now - self._unanswered[1])
        if left > 0:
            self._timeouts.sleep(left)
            return _Next()
        return _Next("sure", records.attempt)

    def _stranger(self, answer: Answer, job_folder: JobFolder, records: Records) -> _Next:
        """Tell a job that is ours, though nothing was written down, from those that ended before."""
        # A job of an attempt that was put aside may still be in the queue: it sees that itself, and runs nothing.
        numbers = [number for number in self._tagged(answer) if number not in records.past]
        if not numbers:
            return _Next("sure")
        states = self.scheduler.parse_status(ask(self._transport, self.scheduler.status_command(numbers)), numbers)
        alive = [number for number in numbers if number in states and is_alive(states[number])]
        if not alive:
            return _Next("sure")
        if not job_folder.exists:
            raise JobError(
                f"job {alive[0]} with the tag {self._spec.tag} is still {states[alive[0]].state}, but its folder "
                f"{self._spec.directory} was gone: cancel it, or run with state 'restarted'"
            )
        return _Next(f"id:{ADOPTED}{alive[0]}")

    def _adopted(self, answer: Answer, records: Records) -> _Next | None:
        answered = read_id(self.scheduler, answer.text("out").strip()) if answer.text("out").strip() else None
        number = answered or next(iter(self._new(self._tagged(answer), records)), None)
        return _Next(f"id:{ADOPTED}{number}", records.attempt) if number else None

    def _new(self, numbers: Sequence[str], records: Records) -> list[str]:
        """Return the jobs that were not there before the last attempt."""
        before: Sequence[str] = []
        if records.intent and records.intent.tagged.strip():
            before = self.scheduler.parse_find(Completed(0, records.intent.tagged, ""), self._spec.tag)
        return [number for number in numbers if number not in before and number not in records.past]

    def _tagged(self, answer: Answer) -> list[str]:
        done = answer.completed("found", "found_code")
        return self.scheduler.parse_find(done, self._spec.tag)


def recorded(scheduler: Scheduler, job_folder: JobFolder) -> Submitted | None:
    """Return the job that the folder tells of; None when none was submitted, or nobody knows."""
    number = _of_records(scheduler, job_folder.records)
    if number is None:
        return None
    intent = job_folder.records.intent
    return Submitted(number, intent.time if intent else None, made=False, attempt=job_folder.records.number)


def _of_records(scheduler: Scheduler, records: Records) -> str | None:
    """Return the id of the job that the records tell of: of the one that runs or ran, where that is known.

    That is another one than the scheduler answered with where an attempt that was given up made a job all the same.
    """
    answered = read_id(scheduler, records.id_text) if records.id_text else None
    if records.runner is not None and not (answered and is_same_job(answered, records.runner)):
        return scheduler.id_of(records.runner)
    if answered is None and records.begun:
        return scheduler.id_of(NOBODY)  # Its number is lost; that it has begun is enough.
    return answered
