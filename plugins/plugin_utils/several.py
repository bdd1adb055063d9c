# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions on several jobs of a target share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.progress import warnings

try:
    from modak_deploy.deploy.running import prepare_reports, write_reports
    from modak_deploy.diagnostics import Diagnostic
    from modak_deploy.errors import InputError, JobError
    from modak_deploy.jobs.control import Jobs, Present
    from modak_deploy.jobs.logs import explanation
    from modak_deploy.jobs.results import Ended
    from modak_deploy.jobs.status import sentence
    from modak_deploy.model.job import JobResult
    from modak_deploy.model.jobrequest import JobRequest
    from modak_deploy.model.plan import Plan
    from modak_deploy.terminal import visible
except ImportError:
    pass  # ModakAction says so before anything here is used

MOST = 5
"""Jobs that a failed task names; all of them are in what it returns."""


def check_names(plans: list[Plan]) -> None:
    """Raise InputError where two plans would fetch their results to one folder."""
    if not plans:
        raise InputError("plans: at least one is required")
    twice = [name for name, count in Counter(plan.name for plan in plans).items() if count > 1]
    if twice:
        raise InputError(
            f"plans: {len(twice)} names occur more than once, such as '{twice[0]}'", hint="give each run its own"
        )


def wait_and_fetch(jobs: Jobs, present: list[Present], folders: list[Path], timeout: float | None) -> dict[str, Any]:
    """Wait for the jobs, fetch the results of each to its folder, and return what the task returns."""
    prepare_reports()
    ended = _wait(jobs, present, timeout)
    items = [Ended(item.job, result, folder) for item, result, folder in zip(present, ended, folders, strict=True)]
    fetched = jobs.fetch_all(items)
    write_reports(jobs, [item.result for item in fetched])
    returned = {
        "changed": any(item.changed for item in fetched),
        "jobs": [item.result.model_dump(mode="json") for item in fetched],
        **warnings([item.result for item in fetched]),
    }
    requests = [item.job.request for item in present]
    bad = [
        (request, item.result)
        for request, item in zip(requests, fetched, strict=True)
        if item.result.state != "completed"
    ]
    if not bad:
        return returned
    problems = [Diagnostic(explanation(*ended), JobError.code) for ended in bad]
    return {**returned, **failure(_message(bad, len(requests)), problems)}


def failure(message: str, diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return what a task that fails returns besides what it has done, as ModakAction does for an error."""
    return {"failed": True, "msg": message, "diagnostics": [diagnostic.as_dict() for diagnostic in diagnostics]}


def _wait(jobs: Jobs, present: list[Present], timeout: float | None) -> list[JobResult]:
    """Return how all jobs ended, in their order; those of one scheduler are asked for together."""
    ended: dict[str, JobResult] = {}
    for _scheduler, group in groupby(sorted(present, key=_scheduler_of), key=_scheduler_of):
        ended.update({result.tag: result for result in jobs.wait(list(group), timeout=timeout)})
    return [ended[item.job.request.tag] for item in present]


def _scheduler_of(item: Present) -> str:
    return item.job.request.scheduler


def _message(bad: list[tuple[JobRequest, JobResult]], total: int) -> str:
    """Return one sentence on all jobs that ended badly, and the last lines of the first one's log."""
    first, *others = (visible(sentence(result)) for dummy, result in bad[:MOST])
    more = f"; and {len(bad) - MOST} more" if len(bad) > MOST else ""
    log = explanation(*bad[0]).removeprefix(first)
    return f"{len(bad)} of {total} jobs did not complete: {'; '.join([first, *others])}{more}{log}"
