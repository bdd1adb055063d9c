"""Series: what the jobs of one application measured again and again, kept as one entry that stays small.

A decision needs of a hundred thousand runs of one configuration what it needs of twenty: how many there were, the mean
and the spread of their times, and some runs by phases. A store keeps that beside the records, so that a decision reads
as much after years as after a week. The records themselves stay, and the series can be made of them again.
"""

import hashlib
import heapq
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio, Record
from modak_deploy.performance.matching import own_phases
from modak_deploy.performance.statistics import Moments

FEW = 4
"""Records of a series that are read one by one; of more, the series is read."""
NEWEST = 8
"""Runs that a series keeps by their phases."""
MADE_FOR = "series"
"""The key of a store's state that holds the sum of the records for which its series were made."""
Identity = tuple[object, ...]
"""What tells what one job measured of one configuration from all else."""
Ask = Callable[[str, Mapping[str, object]], Sequence[Sequence[Any]]]
"""Asks a database in SQL, with named parameters."""
_JOB = re.compile(r"^job \S+ of ")
_ADAPTER: TypeAdapter[Measurement | Ratio] = TypeAdapter(Record)


@dataclass(frozen=True)
class Folded:
    """A series: its newest runs as one record, and all of its runs by their moments."""

    record: Measurement
    moments: Moments
    """Of the seconds of all runs, at the record's own numbers of units and samples."""
    first_date: str


Observation = Measurement | Ratio | Folded
"""What a decision can rest on."""


def record_in(observation: Observation) -> Measurement | Ratio:
    """Return the record itself, or that of the newest runs of a series."""
    return observation.record if isinstance(observation, Folded) else observation


def key_of(record: Measurement | Ratio) -> str | None:
    """Return the key of the series that a record belongs to: all but when it ran, and for how long.

    None for what is no run of a deployed job: benchmarks compare within one series of runs, block by block, and a
    publication speaks for itself.
    """
    if not isinstance(record, Measurement) or not record.runs or not _JOB.match(record.provenance.source):
        return None
    if any(run.block is not None for run in record.runs):
        return None
    data = record.model_dump(
        mode="json", exclude={"runs": True, "provenance": True, "hardware": {"bf16"}}, exclude_none=True
    )
    data["source"] = _JOB.sub("", record.provenance.source)
    data["method"] = record.provenance.method
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def identity_of(record: Measurement | Ratio) -> Identity | None:
    """Return what is the same of a job's record whichever modak made it; None of what is no run of a job.

    A later one may tell more of the same job, such as another field or package. Recorded twice, one run would be two
    that agree exactly.
    """
    if not isinstance(record, Measurement) or not record.runs or not _JOB.match(record.provenance.source):
        return None
    runs = tuple((run.time, run.block) for run in record.runs)
    if any(time is None for time, _ in runs):
        return None
    levers = frozenset(record.configuration.levers)
    configuration = record.configuration.model_dump_json(exclude={"levers"})
    return (record.provenance.source, record.workload.model, record.kind, levers, configuration, runs)


@dataclass(frozen=True)
class Entry:
    """What a store keeps of a series."""

    records: int
    runs: int
    mean: float
    squares: float
    """Sum of the squared deviations from the mean of the logarithms."""
    first_date: str
    document: str
    """The newest runs as one record, in canonical JSON."""

    def counting(self, records: int) -> "Entry":
        """Return the entry of records that are in no series, with so many more."""
        return replace(self, records=self.records + records)

    def joined(self, other: "Entry") -> "Entry":
        """Return both as one; the order does not matter."""
        count = self.runs + other.runs
        shift = other.mean - self.mean
        mine, theirs = json.loads(self.document), json.loads(other.document)
        newest = max(mine, theirs, key=lambda data: _age(data["provenance"], "date"))
        runs = heapq.nlargest(NEWEST, [*mine["runs"], *theirs["runs"]], key=lambda run: _age(run, "time"))
        return Entry(
            records=self.records + other.records,
            runs=count,
            mean=self.mean + shift * other.runs / count,
            squares=self.squares + other.squares + shift**2 * self.runs * other.runs / count,
            first_date=min(self.first_date, other.first_date),
            document=_canonical({**newest, "runs": runs}),
        )

    def folded(self, name: str) -> Folded:
        """Return the series; InputError where what the store called ``name`` holds is not valid."""
        record = _parse_again(self.document, f"a series of {name}")
        if not isinstance(record, Measurement) or self.runs < 1 or self.squares < 0:
            raise InputError(f"a series of {name} is not valid; 'modak measurements import' of any file makes it anew")
        variance = self.squares / (self.runs - 1) if self.runs > 1 else None
        return Folded(record, Moments(self.runs, self.mean, variance), self.first_date)


def entry_of(records: Sequence[Measurement]) -> Entry:
    """Return the series of records with the same key."""
    moments = Moments.of_values([own_phases(run, record).total for record in records for run in record.runs])
    newest = max(records, key=lambda record: _age(_dumped(record.provenance), "date"))
    runs = (_dumped(run) for record in records for run in record.runs)
    data = {**_dumped(newest), "runs": heapq.nlargest(NEWEST, runs, key=lambda run: _age(run, "time"))}
    return Entry(
        records=len(records),
        runs=moments.count,
        mean=moments.mean,
        squares=(moments.variance or 0.0) * (moments.count - 1),
        first_date=min(record.provenance.date for record in records),
        document=_canonical(data),
    )


def fold(pairs: Iterable[tuple[str, Measurement | Ratio]]) -> list[tuple[str, Observation]]:
    """Return what a decision needs of records in memory, each with its content, sorted by it; see ``read``."""
    entries: list[tuple[str, Observation]] = []
    groups: dict[str, list[tuple[str, Measurement]]] = {}
    for line, record in pairs:
        key = key_of(record)
        if key is None or not isinstance(record, Measurement):
            entries.append((line, record))
        else:
            groups.setdefault(key, []).append((line, record))
    for members in groups.values():
        if len(members) <= FEW:
            entries += members
        else:
            entry = entry_of([record for _, record in members])
            entries.append((entry.document, entry.folded("these measurements")))
    return sorted(entries, key=lambda pair: pair[0])


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _age(data: dict[str, Any], key: str) -> tuple[Any, str]:
    """Order by time, and what has the same time by its content, so that the order of coming in does not matter."""
    return (data.get(key) or 0, _canonical(data))


def _canonical(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, ensure_ascii=False)


def parse(document: str, what: str) -> Measurement | Ratio:
    """Return the record that a ``document`` holds; InputError says that ``what`` is not valid."""
    try:
        return _ADAPTER.validate_json(document)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise InputError(f"{what}: {key}: {fault['msg']}") from None


# The few series of a workload are read for each target and each decision of a process.
_parse_again = lru_cache(maxsize=256)(parse)


def read(ask: Ask, model: str, present: Collection[str], name: str) -> list[tuple[str, Observation]]:
    """Return what a decision needs of the workload named ``model`` from the store ``name``, sorted by content.

    ``ask`` queries it, always as it was at one moment. Records of jobs with the digests ``present`` are left out.
    """
    entries: list[tuple[str, Observation]] = []
    if not _is_current(ask):
        every = ask("SELECT id, document, digest FROM modak_measurement WHERE workload = :model", {"model": model})
        return _singles([row for row in every if row[2] not in present], entries, name)
    held = {row[0] for digest in present for row in ask(_SERIES_OF, {"digest": digest})}
    rows = list(ask(_SINGLES, {"model": model, "few": FEW}))
    for number, *values in ask(_FOLDED, {"model": model, "few": FEW}):
        if number in held:
            rows += [row for row in ask(_MEMBERS, {"series": number}) if row[2] not in present]
        else:
            entry = Entry(*values)
            entries.append((entry.document, entry.folded(name)))
    return _singles([row for row in rows if row[2] not in present], entries, name)


def _singles(
    rows: Iterable[Sequence[Any]], entries: list[tuple[str, Observation]], name: str
) -> list[tuple[str, Observation]]:
    entries += [(str(text), parse(text, f"measurement {number} of {name}")) for number, text, _ in rows]
    return sorted(entries, key=lambda pair: pair[0])


def _is_current(ask: Ask) -> bool:
    """Tell whether the series were made for the records that are there."""
    state = {row[0]: row[1] for row in ask("SELECT key, value FROM modak_state", {})}
    return MADE_FOR in state and state[MADE_FOR] == state.get("sum")


_FOLDED = """SELECT id, records, runs, mean, squares, first_date, document FROM modak_series
WHERE workload = :model AND records > :few AND document <> ''"""
_SINGLES = """SELECT r.id, r.document, r.digest FROM modak_series s JOIN modak_member m ON m.series = s.id
JOIN modak_measurement r ON r.id = m.measurement
WHERE s.workload = :model AND (s.records <= :few OR s.document = '')"""
_SERIES_OF = """SELECT m.series FROM modak_measurement r JOIN modak_member m ON m.measurement = r.id
WHERE r.digest = :digest"""
_MEMBERS = """SELECT r.id, r.document, r.digest FROM modak_member m JOIN modak_measurement r ON r.id = m.measurement
WHERE m.series = :series"""
