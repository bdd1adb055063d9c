# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small report beside the results of each job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modak.jobs.control import Jobs
    from modak.model.job import JobResult


def write_reports(jobs: Jobs, results: list[JobResult]) -> None:
    """Write the reports of jobs whose results were fetched; what cannot be written is told, and nothing fails."""
    from modak.evidence.report import write_job_reports

    for problem in write_job_reports([Path(result.results) for result in results if result.results is not None]):
        jobs.notice(problem)
