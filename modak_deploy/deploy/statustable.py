"""The table of ``modak status``."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy.deploy.service import described
from modak_deploy.errors import ModakError
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.model.service import ServiceResult
from modak_deploy.terminal import excerpt
from modak_deploy.util.units import clock

HEADER = ("RUN", "TARGET", "JOB", "STATE", "TIME", "REASON OR RESULTS")
_REASON = 100


@dataclass(frozen=True)
class Row:
    """The state of one run."""

    name: str
    plan: Plan | None
    job: JobResult | None = None
    results: Path | None = None
    """Its folder on this machine, where results were fetched."""
    error: ModakError | None = None
    """Why the state is not known."""
    service: ServiceResult | None = None
    """What is there of a run that is a service."""

    @property
    def state(self) -> str:
        """The job's state, or what stands for it where there is none."""
        if self.error is not None:
            return "unknown"
        if self.service is not None:
            return "ready" if self.service.ready else "not ready"
        return "not deployed" if self.job is None else self.job.state

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "name": self.name,
            "target": None if self.plan is None else self.plan.target.name,
            "tag": None if self.plan is None else self.plan.tag(),
            "state": self.state,
            "service": None if self.service is None else self.service.model_dump(mode="json"),
            "job": None if self.job is None else self.job.model_dump(mode="json"),
            "results": None if self.results is None else str(self.results),
            "diagnostics": [] if self.error is None else [problem.as_dict() for problem in self.error.diagnostics],
        }

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        job = self.job
        last = str(self.error) if self.error is not None else (job.reason if job is not None else "")
        if self.service is not None:
            last = described(self.service)
        if not last and self.results is not None:
            last = str(self.results)
        target = "-" if self.plan is None else self.plan.target.name
        return (self.name, target, "-" if job is None else job.id, self.state, _time(job), excerpt(last, _REASON))


def _time(job: JobResult | None) -> str:
    """Return how long the job ran; while it runs, by this machine's clock."""
    if job is None or job.started is None:
        return "-"
    return clock(max(0, int((job.ended or time.time()) - job.started)))


def render_rows(rows: Sequence[Row]) -> str:
    """Return the table, the columns as wide as they need to be."""
    table = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADER))]
    out = io.StringIO()
    for cells in table:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        out.write(line.rstrip() + "\n")
    return out.getvalue()
