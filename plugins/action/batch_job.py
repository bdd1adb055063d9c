# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the job of a Plan, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction, check_seconds, plan_of
from ansible_collections.modak.deploy.plugins.plugin_utils.progress import warnings
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders
from ansible_collections.modak.deploy.plugins.plugin_utils.several import MOST, check_names, failure, wait_and_fetch

try:
    from modak_deploy.deploy.cluster import ClusterRun, is_on_cluster
    from modak_deploy.deploy.running import Deployer, Outcome, Previewed, RunSettings
    from modak_deploy.errors import InputError, JobError, ModakError, all_of
    from modak_deploy.jobrequest import job_request
    from modak_deploy.jobs.control import Present
    from modak_deploy.model.job import JobResult
    from modak_deploy.model.plan import Plan
    from modak_deploy.terminal import visible
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(JobAction):
    """modak.deploy.batch_job."""

    ARGUMENTS = arguments_of("batch_job")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if (arguments["plan"] is None) == (arguments["plans"] is None):
            raise InputError("give either 'plan' or 'plans'")
        check_seconds(arguments)
        search = search_folders(arguments["search_paths"], task_vars)
        self._jobs = self.jobs(task_vars, outage=arguments["outage"])
        plan = None if arguments["plan"] is None else plan_of(arguments["plan"])
        if plan is not None and is_on_cluster(plan):
            return self._on_cluster(ClusterRun(plan, search, self.reporter.notice), arguments, task_vars)
        self._deployer = Deployer(
            self.transport(task_vars),
            self._jobs,
            search=search,
            secrets=self._reader(search, arguments),
            reporter=self.reporter,
        )
        settings = _settings(arguments)
        if plan is None:
            plans = [self._deployer.completed(plan_of(value)) for value in arguments["plans"]]
            check_names(plans)
            if any(map(is_on_cluster, plans)):
                raise InputError("plans: not supported for Kubernetes: give each in a task of its own as 'plan'")
            return self._several(plans, settings, arguments, task_vars)
        plan = self._deployer.completed(plan)
        if arguments["state"] == "absent":
            return self._absent(plan)
        results = results_folder(arguments["results"], self._task, task_vars, plan.name)
        if self._task.check_mode:
            return _previewed(self._deployer.preview(plan, settings, results))
        return _returned(self._deployer.run(plan, settings, results))

    def _on_cluster(self, run: ClusterRun, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do it with a Job of Kubernetes; the controller alone speaks with the cluster."""
        check = self._task.check_mode
        if arguments["state"] == "absent":
            doomed = run.remove(check=check)
            before = visible("".join(f"{thing}\n" for thing in doomed))
            return {"changed": bool(doomed), "job": None, "diff": {"before": before, "after": ""}}
        folder = results_folder(arguments["results"], self._task, task_vars, run.plan.name)
        if check:
            return _previewed(run.preview(_settings(arguments), folder))
        return _returned(run.run(_settings(arguments), folder))

    def _several(
        self,
        plans: list[Plan],
        settings: RunSettings,
        arguments: dict[str, Any],
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """Submit the jobs of several plans together, and wait for all of them."""
        if arguments["state"] != "present" or arguments["record"] or arguments["follow"]:
            raise InputError("plans: not supported with 'record', 'follow', or another state than 'present'")
        if self._task.check_mode:
            folders = [results_folder(arguments["results"], self._task, task_vars, plan.name) for plan in plans]
            pairs = zip(plans, folders, strict=True)
            previews = [_previewed(self._deployer.preview(plan, settings, folder)) for plan, folder in pairs]
            return {
                "changed": any(preview["changed"] for preview in previews),
                "jobs": [preview["job"] for preview in previews],
                "diff": [preview["diff"] for preview in previews],
            }
        inputs = [self._deployer.input(plan) for plan in plans]
        outcomes = self._jobs.present_all(inputs, template=settings.template, retry=settings.retry)
        present = [item for item in outcomes if isinstance(item, Present)]
        made = any(item.made for item in present)
        if failed := [
            (plan, item) for plan, item in zip(plans, outcomes, strict=True) if not isinstance(item, Present)
        ]:
            jobs = [item.job.id if isinstance(item, Present) else None for item in outcomes]
            problems = all_of(error for _plan, error in failed)
            return {"changed": made, "ids": jobs, **failure(_not_submitted(failed, len(plans)), problems)}
        returned = {"changed": made, "diff": [_diff(item.script, item.made) for item in present]}
        if not arguments["wait"]:
            return {**returned, "jobs": [result.model_dump(mode="json") for result in self._seen(present)]}
        folders = [results_folder(arguments["results"], self._task, task_vars, plan.name) for plan in plans]
        fetched = wait_and_fetch(self._jobs, present, folders, arguments["timeout"] or None)
        return {**returned, **fetched, "changed": made or fetched["changed"]}

    def _seen(self, present: list[Present]) -> list[JobResult]:
        """Return the jobs as they are; of one that was just submitted nothing else is known yet than that."""
        seen = iter(self._jobs.see_all([item.job for item in present if not item.made]))
        return [self._jobs.submitted(item.job) if item.made else next(seen) for item in present]

    def _absent(self, plan: Plan) -> dict[str, Any]:
        if not self._task.check_mode:
            return {"changed": self._jobs.absent(job_request(plan)), "job": None}
        doomed = visible("".join(f"{thing}\n" for thing in self._jobs.doomed(job_request(plan))))
        return {"changed": bool(doomed), "job": None, "diff": {"before": doomed, "after": ""}}


def _settings(arguments: dict[str, Any]) -> RunSettings:
    return RunSettings(
        wait=arguments["wait"],
        timeout=arguments["timeout"] or None,
        restarted=arguments["state"] == "restarted",
        follow=arguments["follow"],
        record=arguments["record"],
        retry=arguments["retry"],
        template=_text(arguments["template"]),
    )


def _previewed(preview: Previewed) -> dict[str, Any]:
    job = None if preview.job is None else preview.job.model_dump(mode="json")
    diff = _diff(preview.script, preview.submits)
    returned = {"changed": preview.changes, "job": job, "script": preview.script, "diff": diff}
    return returned | _before(preview.previous)


def _returned(outcome: Outcome) -> dict[str, Any]:
    """Return what the task returns for a job that was submitted, and perhaps waited for."""
    returned = {
        "changed": outcome.changed,
        "job": outcome.job.model_dump(mode="json"),
        "diff": _diff(outcome.script, outcome.submitted),
        **_before(outcome.previous),
        **warnings([outcome.job]),
    }
    if outcome.problem:  # without the script: Ansible prints all that a failed task returns
        return {**returned, **failure(outcome.problem, JobError(outcome.problem).diagnostics)}
    recorded = {} if outcome.recorded is None else {"recorded": outcome.recorded}
    return {**returned, "script": outcome.script, **recorded}


def _before(ended: JobResult | None) -> dict[str, Any]:
    """Return what the task says of an attempt that ended badly and is followed by another one."""
    return {} if ended is None else {"previous": ended.model_dump(mode="json")}


def _not_submitted(failed: list[tuple[Plan, ModakError]], total: int) -> str:
    """Return one sentence on the jobs that could not be submitted."""
    shown = "; ".join(f"{plan.name}: {error}" for plan, error in failed[:MOST])
    more = f"; and {len(failed) - MOST} more" if len(failed) > MOST else ""
    return visible(f"{len(failed)} of {total} jobs were not submitted: {shown}{more}")


def _text(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the job template {path} cannot be read: {getattr(error, 'strerror', error)}") from None


def _diff(script: str, submits: bool) -> dict[str, str]:
    header = {"before_header": "no job", "after_header": "job script"}
    return {**header, "before": "", "after": visible(script)} if submits else {"before": "", "after": ""}
