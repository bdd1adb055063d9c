# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task that waits for a job shows while it waits."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.utils.display import Display

if TYPE_CHECKING:
    from modak.jobs.job import Job
    from modak.model.job import JobResult
    from modak.schedulers.base import QueueState

with suppress(ImportError):  # ModakAction says so before anything here is used
    from modak.jobs.restarted import lines as restart_lines
    from modak.jobs.tuning import lines as tuning_lines
    from modak.terminal import excerpt, lines, visible
    from modak.util.units import clock

METRICS = 50
"""Metrics of a job that are shown; all of them are in what the task returns."""
WARNINGS = 20
"""Files that a task warns of; the result of a job names more."""
display = Display()


def show(text: str) -> None:
    """Show lines while the task still runs: on standard error where the callback writes JSON on standard output.

    Orchestrators such as xOpera read that JSON, and a line between would make it unreadable. What could move the cursor
    or forge another line is shown as an escape.
    """
    callback = str(constants.config.get_config_value("DEFAULT_STDOUT_CALLBACK"))
    display.display(visible(text), stderr="json" in callback)


def warnings(results: list[JobResult]) -> dict[str, list[str]]:
    """Return what a task returns for Ansible to warn of: what was left on the target."""
    sentences = [
        f"job {result.id} ({result.tag}): not fetched: {sentence}"
        for result in results
        for sentence in result.not_fetched
    ]
    more = [f"and {len(sentences) - WARNINGS} more that were not fetched"] if len(sentences) > WARNINGS else []
    return {"warnings": [visible(text) for text in [*sentences[:WARNINGS], *more]]} if sentences else {}


class DisplayReporter:
    """Shows what happens to jobs while the task still runs, one line each."""

    def __init__(self, host: str) -> None:
        self._host = host

    def state(self, job: Job, state: QueueState) -> None:
        """See modak.jobs.settings.Reporter."""
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
        self._show(" ".join(parts))

    def notice(self, text: str) -> None:
        """See modak.jobs.settings.Reporter."""
        self._show(text)

    def output(self, job: Job, text: str) -> None:
        """See modak.jobs.settings.Reporter."""
        for line in lines(text):
            self._show(f"job {job.id} | {line}")

    def end(self, result: JobResult) -> None:
        """Show what a finished job has written."""
        if result.seconds is not None:
            self._show(f"the application ran for {result.seconds:.1f} s")
        for line in restart_lines(result.restart) if result.restart else ():
            self._show(f"  {excerpt(line)}")
        for line in tuning_lines(result.tuning) if result.tuning else ():
            self._show(f"  {excerpt(line)}")
        metrics = list((result.metrics or {}).items())
        for name, value in metrics[:METRICS]:
            self._show(f"  {excerpt(name, 80)}: {excerpt(_shortened(value))}")
        if len(metrics) > METRICS:
            self._show(f"  and {len(metrics) - METRICS} more metrics")
        self._show(f"results: {result.results}")

    def _show(self, text: str) -> None:
        show(f"{time.strftime('%H:%M:%S')} [{self._host}] {text}")


def _shortened(value: Any) -> str:
    """Return a metric in one line; of a long list only its ends."""
    if isinstance(value, list) and len(value) > 6:
        return f"{value[0]}, {value[1]}, ... {value[-1]} ({len(value)} values)"
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
