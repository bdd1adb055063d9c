"""What a job's folder says of the job: the records in ``state/`` that the submit step and the job script write."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from modak_deploy.jobs.record import ExitRecord, StartRecord, parse_exit, parse_start
from modak_deploy.numbers import digits
from modak_deploy.reported import MAX_TIME, plain

ADOPTED = "modak-id "
"""Stands before an id that was found by the tag, where the scheduler's own answer never arrived."""


@dataclass(frozen=True)
class Intent:
    """One attempt to submit: written before the scheduler is asked."""

    token: str
    time: float
    """Seconds since the epoch on the target."""
    tagged: str
    """What the scheduler knew of the tag before."""


@dataclass(frozen=True)
class Records:
    """All records of one job; what is not there is None or empty."""

    tag: str | None = None
    intent: Intent | None = None
    id_text: str | None = None
    """What the scheduler printed when it took the job, or ADOPTED and the id."""
    refused: str | None = None
    """Token of the last attempt that the scheduler did not take."""
    starts: Mapping[int | None, StartRecord] = field(default_factory=dict)
    """By the number of an array's task; by None for a job that is no array."""
    exits: Mapping[int | None, ExitRecord] = field(default_factory=dict)
    emptied: bool = False
    """Whether there is a record of a start or an end whose content was lost."""
    ran: bool = False
    """Whether the application was started, by the record of its times."""
    messages: Mapping[int | None, str] = field(default_factory=dict)
    """What the scheduler wrote into the job's log when it ended it, one line for each task; see ``end_message``."""
    number: int = 1
    """Which attempt to run the job this is: those before ended badly and were put aside."""
    past: frozenset[str] = frozenset()
    """The ids of the attempts before; a scheduler that has given a job up may let its script write its end late."""

    @property
    def attempt(self) -> str:
        """Return the token of the last attempt, empty when there was none."""
        return self.intent.token if self.intent else ""

    @property
    def begun(self) -> bool:
        """Whether a job has begun or ended by its own word: then nothing is run again."""
        return bool(self.starts or self.exits or self.emptied or self.ran)

    @property
    def runner(self) -> str | None:
        """Return the id, as the job saw it, of the job that has begun or ended by its own word."""
        jobs = [*(start.job for start in self.starts.values()), *(end.job for end in self.exits.values())]
        return next((job for job in jobs if job), None)


def parse(parts: Mapping[str, str]) -> Records:
    """Return the records among the parts of an answer; TargetError for a start or exit record that is damaged."""
    refused = parts.get("refused", "").split()
    began, ended = _by_task(parts, "start"), _by_task(parts, "exit")
    starts = {task: parse_start(parts[name]) for task, name in began}
    exits = {task: parse_exit(parts[name]) for task, name in ended}
    number, *past = plain(parts.get("attempt", "")).split() or [""]
    return Records(
        tag=plain(parts.get("tag", "")).strip() or None,
        intent=_intent(parts.get("intent", "")),
        id_text=plain(parts.get("id", "")).strip() or None,
        refused=refused[0] if refused else None,
        starts={task: record for task, record in starts.items() if record and not _is_past(record.job, past)},
        exits={task: record for task, record in exits.items() if record and not _is_past(record.job, past)},
        emptied=None in (*starts.values(), *exits.values()),
        ran=bool(_by_task(parts, "run")),
        messages=_messages(parts.get("messages", "")),
        number=_number(number),
        past=frozenset(past),
    )


def is_same_job(left: str, right: str) -> bool:
    """Whether two ids are of one job: they begin with its number, and differ in what schedulers write behind it.

    A process id may be in use again, so that the time at which the process started counts where both tell it.
    """
    if all(re.fullmatch(r"\d+-\d+", text, re.ASCII) for text in (left, right)):
        return left == right
    numbers = [re.match(r"\d+", text, re.ASCII) for text in (left, right)]
    return left == right or (None not in numbers and len({match[0] for match in numbers if match}) == 1)


def _is_past(job: str | None, past: Collection[str]) -> bool:
    return job is not None and any(is_same_job(job, other) for other in past)


def _number(text: str) -> int:
    return max(1, int(text)) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else 1


def _by_task(parts: Mapping[str, str], stem: str) -> list[tuple[int | None, str]]:
    matches = [re.fullmatch(rf"{stem}(?:\.([0-9]{{1,9}}))?", name) for name in parts]
    return [(int(match[1]) if match[1] else None, match[0]) for match in matches if match]


def _messages(text: str) -> dict[int | None, str]:
    """Return the first message of each log; Torque names that of a task ``scheduler.log-3``, OpenPBS ``.3``."""
    messages: dict[int | None, str] = {}
    for line in text.split("\n"):
        if match := re.fullmatch(r"scheduler\.log(?:[.-](\d{1,9}))?:(.*)", line, re.ASCII | re.DOTALL):
            messages.setdefault(int(match[1]) if match[1] else None, match[2])
    return messages


def _intent(text: str) -> Intent | None:
    head, _, tagged = text.partition("\n")
    fields = head.split()
    when = digits(fields[1], int(MAX_TIME)) if len(fields) > 1 else None
    return None if when is None else Intent(fields[0], float(when), plain(tagged))
