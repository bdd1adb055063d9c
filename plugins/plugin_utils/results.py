# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the results of a host's runs are on the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

with suppress(ImportError):  # the actions say so before anything here is used
    from modak_deploy.errors import InputError
    from modak_deploy.paths import expanded

if TYPE_CHECKING:
    from ansible.playbook.task import Task

PLAN = "plan.json"


def results_folder(results: str, task: Task, task_vars: dict[str, Any], run: str | None = None) -> Path:
    """Return the folder below which the task's host has a folder for each run.

    In a play of several hosts each has a folder of its own there: their runs have one name. So has a host that is
    alone, as with ``--limit``, where a play of several has left the ``run`` there. A task that runs once has no other
    host's results to mix with its own.
    """
    top = expanded(results).absolute()
    host = str(task_vars.get("inventory_hostname", ""))
    if not host or host in Path(results).parts:  # the user has kept the hosts apart
        return top
    several = len(task_vars.get("ansible_play_hosts_all") or ()) > 1 and not _runs_once(task)
    name = folder_name(host) if several else host
    if several or (run is not None and (top / host / run / PLAN).is_file()):
        return top / name
    return top


def folder_name(host: str) -> str:
    """Return the name of a host as that of its folder; InputError where no folder can have it."""
    if not re.fullmatch(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f]+", host):
        raise InputError(
            f"results: no folder can have the name of the host {host!r}", hint="give it a results folder of its own"
        )
    return host


def _runs_once(task: Task) -> bool:
    """Return whether a task, or what it was included by, has ``run_once``, which no included task inherits."""
    said = (str(getattr(part, "run_once", False)) for part in _with_parents(task))
    return any(text.lower() in ("true", "yes", "on", "1") for text in said)


def _with_parents(task: Task) -> Iterator[Any]:
    part: Any = task
    while part is not None:
        yield part
        part = getattr(part, "_parent", None)
