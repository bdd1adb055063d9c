"""Jobs that are staged and submitted together, in few round trips."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from modak_deploy.errors import ModakError, TargetError
from modak_deploy.jobs import staging
from modak_deploy.jobs.files import LARGE, Upload
from modak_deploy.jobs.job import SECRETS
from modak_deploy.jobs.remote import Answer, StepError, carry_out, carry_out_all, token
from modak_deploy.jobs.settings import Reporter, Timeouts
from modak_deploy.jobs.staging import JobFolder
from modak_deploy.jobs.submission import Submission, Submitted
from modak_deploy.schedulers.base import JobSpec
from modak_deploy.transport.base import Transport

Realise = Callable[[str], None]
"""Called with the job's folder before the job is submitted, to bring what it needs besides its files."""
_SPAN = 60.0
"""Seconds after which no further jobs are submitted in one round trip."""
_LOCK = 2.0
"""Seconds for which another controller is waited for while other jobs wait as well."""


@dataclass(frozen=True)
class Entry:
    """A job that is to be submitted; ``uploads`` is None where its files must stay as they are."""

    submission: Submission
    spec: JobSpec
    job_folder: JobFolder
    uploads: Sequence[Upload] | None = None
    realise: Realise | None = None
    mark: str = field(default_factory=token)

    @property
    def is_simple(self) -> bool:
        """Whether it can be staged and submitted in one round trip."""
        return self.uploads is not None and self.realise is None and staging.is_small(self.uploads)

    @property
    def has_secrets(self) -> bool:
        """Whether its files hold some: these must be written nowhere but to the job's folder."""
        return any(upload.path == SECRETS for upload in self.uploads or ())


class Batch:
    """Jobs on one target that are submitted together.

    Each job is staged and submitted by the same steps as alone, under its own lock, with its own records: only the
    round trips and the scheduler's list of jobs are shared.
    """

    def __init__(self, transport: Transport, timeouts: Timeouts, reporter: Reporter) -> None:
        self._transport = transport
        self._timeouts = timeouts
        self._reporter = reporter

    def submit(self, entries: Sequence[Entry]) -> list[Submitted | ModakError]:
        """Stage and submit the jobs; return for each its id or what went wrong with it."""
        outcomes: dict[int, Submitted | ModakError] = {}
        simple = {number: entry for number, entry in enumerate(entries) if entry.is_simple and not entry.has_secrets}
        if len(simple) > 1:
            outcomes |= self._submit_together(simple)
        for number, entry in enumerate(entries):
            if number not in outcomes:
                try:
                    outcomes[number] = self._submit_alone(entry)
                except ModakError as error:
                    outcomes[number] = error
        return [outcomes[number] for number in range(len(entries))]

    def _submit_alone(self, entry: Entry) -> Submitted:
        answer = None
        if entry.uploads is not None and entry.is_simple:
            answer = self._stage_and_submit(entry, entry.uploads)
        elif entry.uploads is not None:
            self._stage(entry, entry.uploads)
        return entry.submission.submit(entry.job_folder, answer)

    def _stage(self, entry: Entry, uploads: Sequence[Upload]) -> None:
        staging.stage(self._transport, entry.spec, uploads)
        if entry.realise is not None:
            entry.realise(entry.spec.directory)

    def _stage_and_submit(self, entry: Entry, uploads: Sequence[Upload]) -> Answer | None:
        """Return the submission's first answer; None where it was lost, and only the files are known to be there."""
        begun = self._timeouts.clock()
        steps = [staging.stage_step(entry.spec, uploads), entry.submission.step()]
        try:
            staged, answer = carry_out(self._transport, steps, limit=entry.submission.limit)
        except StepError:
            raise
        except TargetError as error:
            if self._timeouts.clock() - begun > self._timeouts.submission:
                raise
            self._reporter.notice(f"the submission is tried again: {error}")
            self._timeouts.sleep(self._timeouts.pause)
            self._stage(entry, uploads)  # which changes nothing where the job was submitted
            return None
        staging.check_staged(staged, uploads)
        return answer

    def _submit_together(self, entries: dict[int, Entry]) -> dict[int, Submitted | ModakError]:
        """Return what became of the jobs; those that are to be submitted alone are missing."""
        outcomes: dict[int, Submitted | ModakError] = {}
        ordered = sorted(entries, key=lambda number: entries[number].submission.scheduler.name)
        for _name, numbers in groupby(ordered, key=lambda number: entries[number].submission.scheduler.name):
            left = {number: entries[number] for number in numbers}
            failed_since: float | None = None
            while len(left) > 1:
                batch = _first(left)
                try:
                    done = self._round(batch)
                except StepError as error:
                    self._reporter.notice(f"the jobs are submitted one by one: {error}")
                    break
                except TargetError as error:
                    now = self._timeouts.clock()
                    failed_since = now if failed_since is None else failed_since
                    if now - failed_since > self._timeouts.submission:
                        outcomes |= dict.fromkeys(left, error)
                        break
                    self._reporter.notice(f"the submission is tried again: {error}")
                    self._timeouts.sleep(self._timeouts.pause)
                    continue
                if not done:  # a target that answers, and carries out nothing
                    break
                failed_since = None
                outcomes |= done
                left = {number: entry for number, entry in left.items() if number not in done}
        return outcomes

    def _round(self, entries: dict[int, Entry]) -> dict[int, Submitted | ModakError]:
        """Carry out the steps of the jobs once, and follow up what the submissions answer."""
        steps = []
        for entry in entries.values():
            scheduler, spec = entry.submission.scheduler, entry.spec
            listed = scheduler.find_listed_command(spec.tag, spec.name)
            find = None if listed is None else _find_listed(listed, entry.submission.find_command(), entry.mark)
            stage = staging.stage_step(spec, entry.uploads or (), entry.mark)
            steps.append([stage, entry.submission.step(find=find, wait=_LOCK)])
        first = next(iter(entries.values())).submission
        answers = carry_out_all(
            self._transport,
            steps,
            seconds=_SPAN,
            prepare=first.scheduler.listing_command() or "",
            limit=_SPAN + 2 * first.limit,
        )
        outcomes: dict[int, Submitted | ModakError] = {}
        for (number, entry), answered in zip(entries.items(), answers, strict=True):
            if (outcome := self._follow_up(entry, answered)) is not None:
                outcomes[number] = outcome
        return outcomes

    def _follow_up(self, entry: Entry, answered: Sequence[Answer | TargetError]) -> Submitted | ModakError | None:
        """Return what became of a job; None where its turn has not come."""
        try:
            match answered:
                case [StepError() as error, *_] | [_, StepError() as error]:
                    return error
                case [Answer() as staged, Answer() as answer]:
                    staging.check_staged(staged, entry.uploads or ())
                    return entry.submission.submit(entry.job_folder, answer)
                case [TargetError(), *_] | [_, TargetError()]:  # it died: nothing is known of it
                    return self._submit_alone(entry)
        except ModakError as error:
            return error
        return None


def _first(entries: dict[int, Entry]) -> dict[int, Entry]:
    """Return the first jobs, no more than fit into one round trip."""
    batch: dict[int, Entry] = {}
    size = 0
    for number, entry in entries.items():
        size += sum(upload.size for upload in entry.uploads or ())
        if batch and size > LARGE:
            break
        batch[number] = entry
    return batch


def _find_listed(listed: str, find: str, mark: str) -> str:
    """Return the command that finds a job in the shared list, or else asks the scheduler itself.

    The list was made after the job's files were staged. Where the folder is still the same (``staged.MARK``) and holds
    no intent, nobody has submitted the job since: whoever does leaves that record. So the list tells as much as the
    scheduler would now. In all other cases, and after a refusal, the scheduler is asked.
    """
    condition = f'[ -n "${{modak_listing:-}}" ] && [ ! -e intent ] && [ -e staged.{mark} ]'
    return f'if {condition}; then\n(\n{listed}\n) <"$modak_listing"\nelse\n{find}\nfi'
