# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the service of a Plan until it is undeployed."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction, plan_of
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders

try:
    from modak_deploy.deploy.running import Deployer, RunSettings
    from modak_deploy.deploy.service import ServiceRun, described
    from modak_deploy.model.service import ServiceResult
    from modak_deploy.terminal import visible
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(JobAction):
    """modak.deploy.service."""

    ARGUMENTS = arguments_of("service")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        search = search_folders(arguments["search_paths"], task_vars)
        jobs, transport = self.jobs(task_vars), self.transport(task_vars)
        deployer = Deployer(
            transport, jobs, search=search, secrets=self._reader(search, arguments), reporter=self.reporter
        )
        plan = deployer.completed(plan_of(arguments["plan"]))
        run = ServiceRun(plan, transport, jobs)
        state, check = arguments["state"], self._task.check_mode
        if state == "absent":
            gone = visible("".join(f"{thing}\n" for thing in run.remove(check=check)))
            return {"changed": bool(gone), "service": None, "diff": {"before": gone, "after": ""}}
        if state == "looked_up":
            return {"changed": False, "service": _value(run.see())}
        settings = RunSettings(wait=arguments["wait"], restarted=state == "restarted")
        if check:
            preview = run.preview(settings)
            after = visible("".join(f"{sentence}\n" for sentence in preview.sentences))
            diff = {"before": "", "after": after}
            return {"changed": bool(after), "service": _value(preview.service), "diff": diff}
        outcome = run.run(deployer, settings)
        return {"changed": outcome.changed, "service": _value(outcome.service), "msg": described(outcome.service)}


def _value(service: ServiceResult | None) -> dict[str, Any] | None:
    return None if service is None else service.model_dump(mode="json")
