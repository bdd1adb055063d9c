# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for the fastest levers of an application on the target of the task."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.hosts import LOCAL
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction
from ansible_collections.modak.deploy.plugins.plugin_utils.progress import DisplayReporter
from ansible_collections.modak.deploy.plugins.plugin_utils.results import folder_name, results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders

try:
    from modak_deploy.documents import parse_deployment, plain
    from modak_deploy.errors import InputError
    from modak_deploy.tuning.command import lines, tune
    from modak_deploy.tuning.search import Options
except ImportError:
    pass  # ModakAction says so before anything here is used

SECTIONS = ("application", "target", "request", "job")
LEAST = {"rounds": 1, "batch": 1, "budget": 10, "confirm": 2}


class ActionModule(JobAction):
    """modak.deploy.tune."""

    ARGUMENTS = arguments_of("tune")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        sections = {name: plain(arguments[name]) for name in SECTIONS if arguments[name] is not None}
        deployment = parse_deployment(sections, origin="the variables")
        for key, least in LEAST.items():
            if arguments[key] < least:
                raise InputError(f"{key}: {arguments[key]} is too small: write {least} or more")
        reporter = DisplayReporter(self._name(task_vars), self.show)
        plan, outcome = tune(
            deployment,
            self.transport(task_vars),
            search=search_folders(arguments["search_paths"], task_vars),
            results=results_folder(arguments["results"], self._task, task_vars),
            say=reporter.notice,
            options=Options(**{key: arguments[key] for key in LEAST}),
            reporter=reporter,
            default_python=task_vars.get("ansible_playbook_python") if deployment.target.host is None else None,
            record=arguments["record"],
            dry=self._task.check_mode,
            host=self._own(deployment.target.host, task_vars),
        )
        if outcome is None:
            reporter.notice("the search has not come to its end: it would go on")
            return {"changed": True, "tuning": None}
        for line in lines(plan, outcome):
            reporter.notice(line)
        summary = {key: getattr(outcome, key) for key in ("default", "winner", "gain", "low", "high", "reason")}
        counts = {key: getattr(outcome, key) for key in ("tried", "failed", "rounds", "recorded")}
        return {"changed": outcome.changed, "tuning": {**summary, **counts, "levers": list(outcome.levers)}}

    def _own(self, described: str | None, task_vars: dict[str, Any]) -> str:
        """Return the name of the host that is measured; empty where the target tells it, or is this machine."""
        host = str(self._task.delegate_to or task_vars["inventory_hostname"])
        return "" if host in (described, LOCAL, "localhost") else folder_name(host)
