# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions on jobs share: the Plan as an argument, and the job on the target of the task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.progress import DisplayReporter
from ansible_collections.modak.deploy.plugins.plugin_utils.transport import AnsibleTransport

try:
    from modak_deploy.documents import plain
    from modak_deploy.documents.validation import check
    from modak_deploy.errors import InputError
    from modak_deploy.jobs.control import Jobs
    from modak_deploy.jobs.settings import Timeouts
    from modak_deploy.model.plan import Plan
except ImportError:
    pass  # ModakAction says so before anything here is used


class JobAction(ModakAction):
    """An action on jobs of the target that the task runs for."""

    def transport(self, task_vars: dict[str, Any]) -> AnsibleTransport:
        """Return the way to the task's host."""
        return AnsibleTransport(self, self._name(task_vars))

    def jobs(self, task_vars: dict[str, Any], *, outage: float | None = None) -> Jobs:
        """Return the jobs of the task's host; ``outage`` is how many seconds it may be silent while a job runs."""
        timeouts = Timeouts() if outage is None else replace(Timeouts(), outage=outage)
        self.reporter = DisplayReporter(self._name(task_vars), self.show)
        return Jobs(self.transport(task_vars), timeouts=timeouts, reporter=self.reporter)

    def _name(self, task_vars: dict[str, Any]) -> str:
        return str(task_vars.get("inventory_hostname", "the target"))


def check_seconds(arguments: dict[str, Any]) -> None:
    """Raise InputError for a time to wait that is none."""
    for name in ("timeout", "outage"):
        if arguments[name] < 0:
            raise InputError(f"{name}: {arguments[name]} is not a number of seconds", hint="write 0 or more")


def plan_of(argument: Any) -> Plan:
    """Return the Plan in a task's argument; InputError names each fault."""
    return check(Plan, plain(argument), origin="the plan")
