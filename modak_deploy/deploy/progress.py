"""What a user sees of jobs while they are waited for, and at their end; whoever shows it decides where."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from modak_deploy.jobs.restarted import lines as restart_lines
from modak_deploy.jobs.settings import Reporter
from modak_deploy.jobs.shown import JobLines
from modak_deploy.jobs.tuning import lines as tuning_lines
from modak_deploy.model.job import JobResult
from modak_deploy.terminal import excerpt

METRICS = 50
"""Metrics of a job that are shown; its result has all of them."""
WARNINGS = 20
"""Files that are warned of; the result of a job names more."""


class EndReporter(Reporter, Protocol):
    """A reporter that also shows what a finished job has written."""

    def end(self, result: JobResult) -> None:
        """A job has ended, and its results are fetched."""


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


class LineReporter(JobLines):
    """Gives each event to ``write`` as one line, the end of a job included."""

    def end(self, result: JobResult) -> None:
        """See EndReporter."""
        for line in end_lines(result):
            self._write(line)


def _shortened(value: Any) -> str:
    """Return a metric in one line; of a long list only its ends."""
    if isinstance(value, list) and len(value) > 6:
        return f"{value[0]}, {value[1]}, ... {value[-1]} ({len(value)} values)"
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
