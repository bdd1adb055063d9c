"""Submitted exactly once: what is done when a step's answer says that it was not the first.

The step itself (``sh/submit.sh``) holds a lock, writes down the attempt, submits, and writes down the answer. Here it
is decided what an attempt without an answer means: a job that carries the tag and was not there before is the job;
where there is none, and the attempt is old enough to have shown, it is made again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from modak.errors import JobError, TargetError
from modak.jobs import folder
from modak.jobs.folder import ADOPTED, Records
from modak.jobs.job import read_id
from modak.jobs.remote import Answer, StepError, ask, call, token
from modak.jobs.settings import Patience, Reporter
from modak.jobs.staging import Place
from modak.model.job import ENDS
from modak.schedulers.base import JobSpec, Scheduler
from modak.transport.base import Completed, Transport
from modak.transport.local import encode


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
        self, transport: Transport, scheduler: Scheduler, spec: JobSpec, patience: Patience, reporter: Reporter
    ) -> None:
        self._transport = transport
        self._scheduler = scheduler
        self._spec = spec
        self._patience = patience
        self._reporter = reporter
        self._made = False

    def submit(self, place: Place) -> Submitted:
        """Submit the staged job, or find the one that has been submitted; JobError when the scheduler refuses it."""
        begun = self._patience.clock()
        following = _Next()
        while True:
            try:
                answer = self._step(following)
                result = self._understand(answer, place)
            except StepError:
                raise
            except TargetError as error:
                # Nothing is known of this attempt: the next one looks first.
                if self._patience.clock() - begun > self._patience.submission:
                    raise
                self._reporter.notice(f"the submission is tried again: {error}")
                self._patience.sleep(self._patience.pause)
                following = _Next()
                continue
            if isinstance(result, Submitted):
                return result
            if result is None:
                if self._patience.clock() - begun > self._patience.submission:
                    raise TargetError(
                        f"another run keeps the job's lock in {self._spec.directory}/state: try again later"
                    )
                self._patience.sleep(self._patience.pause)
                result = _Next()
            following = result

    def put_aside(self, place: Place, number: str, keep: Sequence[str]) -> bool:
        """Put the attempt in ``place``, the job ``number`` that has ended, aside.

        Return False when another run has been here since. The inputs ``keep``, by their paths below the job's folder,
        stay where they are.
        """
        begun = self._patience.clock()
        stdin = encode("".join(f"{path}\n" for path in keep))
        following = _Next(f"again:{number}", place.records.attempt)
        while (outcome := self._step(following, library=["again"], stdin=stdin).text("outcome")) == "busy":
            if self._patience.clock() - begun > self._patience.submission:
                raise TargetError(f"another run keeps the job's lock in {self._spec.directory}/state: try again later")
            self._patience.sleep(self._patience.pause)
        return outcome == "again"

    def _step(self, following: _Next, *, library: Sequence[str] = (), stdin: bytes = b"") -> Answer:
        find, submit = self._scheduler.find_command(self._spec.tag), self._scheduler.submit_command(self._spec)
        arguments = [self._spec.directory, token(), following.attempt, following.mode, find, submit]
        return call(self._transport, "submit", arguments, library=library, stdin=stdin)

    def _understand(self, answer: Answer, place: Place) -> Submitted | _Next | None:
        """Return the end, what to do next, or None to come back later."""
        records = folder.parse(dict(answer.parts))
        match answer.text("outcome"):
            case "submitted":
                self._made = True
                return self._known(records)
            case "known":
                return self._known(records)
            case "refused":
                return self._refused(answer, records)
            case "changed":
                return self._examined(answer, records)
            case "found":
                return self._stranger(answer, place)
        return None

    def _known(self, records: Records) -> Submitted | _Next:
        """Read the recorded id; where it is none, look for the job by its tag."""
        text = records.id_text or ""
        number = read_id(self._scheduler, text)
        if number is not None:
            return Submitted(number, records.intent.time if records.intent else None, self._made, records.number)
        done = ask(self._transport, self._scheduler.find_command(self._spec.tag))
        if new := self._new(self._scheduler.parse_find(done, self._spec.tag), records):
            return _Next(f"id:{ADOPTED}{new[0]}", records.attempt)
        raise JobError(
            f"the scheduler's answer {text[:200]!r} names no job, and no job carries the tag {self._spec.tag}"
        )

    def _refused(self, answer: Answer, records: Records) -> _Next:
        """Believe a refusal only where no job has come of it."""
        self._made = True
        if adopted := self._adopted(answer, records):
            return adopted
        number = self._scheduler.parse_submit(
            Completed(int(answer.text("code")), answer.text("out"), answer.text("err"))
        )
        return _Next(f"id:{ADOPTED}{number}", records.attempt)

    def _examined(self, answer: Answer, records: Records) -> _Next:
        """Decide what became of an earlier attempt, from which there is no answer."""
        if records.intent is None:
            return _Next()
        if adopted := self._adopted(answer, records):
            return adopted
        age = int(answer.text("now")) - records.intent.time
        if 0 <= age < self._patience.settle:
            self._patience.sleep(self._patience.settle - age)
            return _Next()
        return _Next("sure", records.attempt)

    def _stranger(self, answer: Answer, place: Place) -> _Next:
        """Tell a job that is ours, though nothing was written down, from those that ended before."""
        numbers = self._found(answer)
        if not numbers:
            return _Next("sure")
        states = self._scheduler.parse_status(ask(self._transport, self._scheduler.status_command(numbers)), numbers)
        alive = [number for number in numbers if number in states and states[number].state not in ENDS]
        if not alive:
            return _Next("sure")
        if place.records.tag is None:
            raise JobError(
                f"job {alive[0]} with the tag {self._spec.tag} is still {states[alive[0]].state}, but its folder "
                f"{self._spec.directory} was gone: cancel it, or run with state 'restarted'"
            )
        return _Next(f"id:{ADOPTED}{alive[0]}")

    def _adopted(self, answer: Answer, records: Records) -> _Next | None:
        number = next(iter(self._new(self._found(answer), records)), None) or self._started(records)
        return _Next(f"id:{ADOPTED}{number}", records.attempt) if number else None

    def _new(self, numbers: Sequence[str], records: Records) -> list[str]:
        """Return the jobs that were not there before the last attempt."""
        before: Sequence[str] = []
        if records.intent and records.intent.found.strip():
            before = self._scheduler.parse_find(Completed(0, records.intent.found, ""), self._spec.tag)
        return [number for number in numbers if number not in before and number not in records.past]

    def _started(self, records: Records) -> str | None:
        """Return the id of a job that has begun, by its own word, though the queue does not show it."""
        for start in records.starts.values():
            return self._scheduler.id_of(start.job)
        return None

    def _found(self, answer: Answer) -> list[str]:
        done = Completed(int(answer.text("found_code")), answer.text("found"), answer.text("found_err"))
        return self._scheduler.parse_find(done, self._spec.tag)


def recorded(scheduler: Scheduler, place: Place) -> Submitted | None:
    """Return the job that the folder tells of; None when none was submitted, or nobody knows."""
    number = read_id(scheduler, place.records.id_text) if place.records.id_text else None
    if number is None:
        return None
    intent = place.records.intent
    return Submitted(number, intent.time if intent else None, made=False, attempt=place.records.number)
