# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for many jobs of a target at once, and fetch their results."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction, check_seconds, plan_of
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.several import check_names, wait_and_fetch

try:
    from modak_deploy.deploy.cluster import is_on_cluster
    from modak_deploy.errors import InputError
    from modak_deploy.jobrequest import job_request
    from modak_deploy.jobs.control import Jobs, Present
    from modak_deploy.model.jobrequest import JobRequest
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(JobAction):
    """modak.deploy.batch_job_wait."""

    ARGUMENTS = arguments_of("batch_job_wait")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plans = [plan_of(value) for value in arguments["plans"]]
        check_names(plans)
        if any(map(is_on_cluster, plans)):
            raise InputError("plans: not supported for Kubernetes", hint="wait with modak.deploy.batch_job")
        check_seconds(arguments)
        jobs = self.jobs(task_vars, outage=arguments["outage"])
        present = _find_all(jobs, [job_request(plan) for plan in plans])
        if self._task.check_mode:
            seen = jobs.see_all([item.job for item in present])
            return {"changed": False, "jobs": [result.model_dump(mode="json") for result in seen]}
        folders = [results_folder(arguments["results"], self._task, task_vars, plan.name) for plan in plans]
        return wait_and_fetch(jobs, present, folders, arguments["timeout"] or None)


def _find_all(jobs: Jobs, requests: list[JobRequest]) -> list[Present]:
    present = []
    for request, job in zip(requests, jobs.find_all(requests), strict=True):
        if job is None:
            raise InputError(f"plans: the job of '{request.name}' ({request.tag}) was never submitted to this target")
        present.append(Present(job, script="", made=False))
    return present
