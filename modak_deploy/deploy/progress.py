"""What a user sees of jobs while they are waited for, one line each; whoever shows it decides where."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from modak_deploy.jobs.job import Job
from modak_deploy.jobs.restarted import lines as restart_lines
from modak_deploy.jobs.settings import Reporter
from modak_deploy.jobs.tuning import lines as tuning_lines
from modak_deploy.model.job import JobResult
from modak_deploy.schedulers.base import QueueState
from modak_deploy.terminal import excerpt, lines
from modak_deploy.util.units import clock

METRICS = 50
"""Metrics of a job that are shown; its result has all of them."""
WARNINGS = 20
"""Files that are warned of; the result of a job names more."""


class EndReporter(Reporter, Protocol):
    """A reporter that also shows what a finished job has written."""

    def end(self, result: JobResult) -> None:
        """A job has ended, and its results are fetched."""


def state_text(job: Job, state: QueueState) -> str:
    """Return the state of a job in one line."""
    parts = [f"job {job.id}: {state.state}"]
    if state.reason:
        parts.append(f"({state.reason})")
    if state.start:
        parts.append(f"expected to start at {state.start}")
    if state.elapsed is not None:
        limit = f" of {clock(state.limit)}" if state.limit else ""
        parts.append(f"after {clock(state.elapsed)}{limit}")
    if state.nodes:
        parts.append(f"on {', '.join(state.nodes)}")
    return " ".join(parts)


def end_lines(result: JobResult) -> Iterator[str]:
    """Yield what a finished job has written: its time, what was tried, its metrics, and where its results are."""
    if result.seconds is not None:
        yield f"the application ran for {result.seconds:.1f} s"
    for line in restart_lines(result.restart) if result.restart else ():
        yield f"  {excerpt(line)}"
    for line in tuning_lines(result.tuning) if result.tuning else ():
        yield f"  {excerpt(line)}"
    metrics = list((result.metrics or {}).items())
    for name, value in metrics[:METRICS]:
        yield f"  {excerpt(name, 80)}: {excerpt(_shortened(value))}"
    if len(metrics) > METRICS:
        yield f"  and {len(metrics) - METRICS} more metrics"
    if result.results is not None:
        yield f"results: {result.results}"


def not_fetched(results: Sequence[JobResult]) -> list[str]:
    """Return a sentence for each file that was left on the target, the first ``WARNINGS`` of them."""
    sentences = [
        f"job {result.id} ({result.tag}): not fetched: {sentence}"
        for result in results
        for sentence in result.not_fetched
    ]
    more = [f"and {len(sentences) - WARNINGS} more that were not fetched"] if len(sentences) > WARNINGS else []
    return [*sentences[:WARNINGS], *more]


class LineReporter:
    """Gives each event to ``write`` as one line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def state(self, job: Job, state: QueueState) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        self._write(state_text(job, state))

    def notice(self, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        self._write(text)

    def output(self, job: Job, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        for line in lines(text):
            self._write(f"job {job.id} | {line}")

    def end(self, result: JobResult) -> None:
        """See EndReporter."""
        for line in end_lines(result):
            self._write(line)


def _shortened(value: Any) -> str:
    """Return a metric in one line; of a long list only its ends."""
    if isinstance(value, list) and len(value) > 6:
        return f"{value[0]}, {value[1]}, ... {value[-1]} ({len(value)} values)"
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
