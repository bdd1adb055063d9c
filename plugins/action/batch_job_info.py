# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Get information about a batch job."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction, plan_of

try:
    from modak_deploy.deploy.cluster import ClusterRun, is_on_cluster
    from modak_deploy.documents.jsontext import parse_json
    from modak_deploy.errors import InputError
    from modak_deploy.jobrequest import job_request
    from modak_deploy.jobs.remote import read
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(JobAction):
    """modak.deploy.batch_job_info."""

    ARGUMENTS = arguments_of("batch_job_info")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if (arguments["plan"] is None) == (arguments["directory"] is None):
            raise InputError("give either 'plan' or 'directory', the job's folder on the target")
        value = arguments["plan"] if arguments["plan"] is not None else self._read(arguments["directory"], task_vars)
        jobs = self.jobs(task_vars)
        plan = plan_of(value)
        if is_on_cluster(plan):
            result = ClusterRun(plan, [], self.reporter.notice).see()
            return {"changed": False, "job": None if result is None else result.model_dump(mode="json")}
        job = jobs.find(job_request(plan))
        return {"changed": False, "job": None if job is None else jobs.see(job).model_dump(mode="json")}

    def _read(self, directory: str, task_vars: dict[str, Any]) -> Any:
        """Return the Plan that lies in a job's folder."""
        text = read(self.transport(task_vars), f"{directory}/plan.json")
        if text is None:
            raise InputError(f"{directory} is not a job's folder: it has no readable plan.json")
        return parse_json(text, f"{directory}/plan.json")
