# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task that waits for a job shows while it waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible.utils.display import Display

if TYPE_CHECKING:
    from modak.jobs.job import Job
    from modak.schedulers.base import QueueState

display = Display()


class DisplayReporter:
    """Shows what happens to jobs while the task still runs, one line each."""

    def __init__(self, host: str) -> None:
        self._host = host

    def state(self, job: Job, state: QueueState) -> None:
        """See modak.jobs.settings.Reporter."""
        parts = [f"job {job.id}: {state.state}"]
        if state.reason:
            parts.append(f"({state.reason})")
        if state.elapsed is not None:
            limit = f" of {_clock(state.limit)}" if state.limit else ""
            parts.append(f"after {_clock(state.elapsed)}{limit}")
        if state.nodes:
            parts.append(f"on {', '.join(state.nodes)}")
        self._show(" ".join(parts))

    def notice(self, text: str) -> None:
        """See modak.jobs.settings.Reporter."""
        self._show(text)

    def output(self, job: Job, text: str) -> None:
        """See modak.jobs.settings.Reporter."""
        for line in text.splitlines():
            self._show(f"job {job.id} | {line}")

    def _show(self, text: str) -> None:
        display.display(f"{time.strftime('%H:%M:%S')} [{self._host}] {text}")


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
