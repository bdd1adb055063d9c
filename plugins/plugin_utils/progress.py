# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task that waits for a job shows while it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modak_deploy.model.job import JobResult

try:
    from modak_deploy.deploy.progress import LineReporter, not_fetched
    from modak_deploy.terminal import visible
except ImportError:  # ModakAction says so before anything here is used
    LineReporter = object  # type: ignore[assignment, misc]


def warnings(results: list[JobResult]) -> dict[str, list[str]]:
    """Return what a task returns for Ansible to warn of: what was left on the target."""
    sentences = [visible(text) for text in not_fetched(results)]
    return {"warnings": sentences} if sentences else {}


class DisplayReporter(LineReporter):
    """Shows what happens to jobs while the task still runs, one line each."""

    def __init__(self, host: str, show: Callable[[str], None]) -> None:
        super().__init__(lambda text: show(f"{time.strftime('%H:%M:%S')} [{host}] {text}"))
