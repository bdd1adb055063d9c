"""What a job's folder says of the job: the records in ``state/`` that the submit step and the job script write."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modak.jobs.record import ExitRecord, StartRecord, parse_exit, parse_start

ADOPTED = "modak-id "
"""Stands before an id that was found by the tag, where the scheduler's own answer never arrived."""


@dataclass(frozen=True)
class Intent:
    """One attempt to submit: written before the scheduler is asked."""

    token: str
    time: float
    """Seconds since the epoch on the target."""
    found: str
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
    number: int = 1
    """Which attempt to run the job this is: those before ended badly and were put aside."""

    @property
    def attempt(self) -> str:
        """Return the token of the last attempt, empty when there was none."""
        return self.intent.token if self.intent else ""


def parse(parts: Mapping[str, str]) -> Records:
    """Return the records among the parts of an answer; TargetError for a start or exit record that is damaged."""
    refused = parts.get("refused", "").split()
    starts = ((task, parse_start(parts[name])) for task, name in _by_task(parts, "start"))
    exits = ((task, parse_exit(parts[name])) for task, name in _by_task(parts, "exit"))
    return Records(
        tag=parts.get("tag", "").strip() or None,
        intent=_intent(parts.get("intent", "")),
        id_text=parts.get("id", "").strip() or None,
        refused=refused[0] if refused else None,
        starts={task: record for task, record in starts if record},
        exits={task: record for task, record in exits if record},
        number=_number(parts.get("attempt", "")),
    )


def of_job(records: Records, number: str) -> Records:
    """Return the records without those that the job ``number`` cannot have written.

    A job that a scheduler has given up may write its end down late, when the next attempt has begun. Ids are compared by
    the number that they begin with: schedulers differ in how much of the server's name they show.
    """
    known = _leading(number)
    return replace(
        records,
        starts={task: start for task, start in records.starts.items() if _leading(start.job) in (known, "")},
        exits={task: end for task, end in records.exits.items() if _leading(end.job or "") in (known, "")},
    )


def _leading(number: str) -> str:
    match = re.match(r"\d*", number, re.ASCII)
    return match[0].lstrip("0") if match else ""


def _number(text: str) -> int:
    text = text.strip()
    return max(1, int(text)) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else 1


def _by_task(parts: Mapping[str, str], stem: str) -> list[tuple[int | None, str]]:
    matches = [re.fullmatch(rf"{stem}(?:\.(\d+))?", name) for name in parts]
    return [(int(match[1]) if match[1] else None, match[0]) for match in matches if match]


def _intent(text: str) -> Intent | None:
    head, _, found = text.partition("\n")
    words = head.split()
    if len(words) < 2 or not words[1].isdigit():
        return None
    return Intent(words[0], float(words[1]), found)
