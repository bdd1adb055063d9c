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
from ansible_collections.modak.deploy.plugins.plugin_utils.reports import write_reports
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders
from ansible_collections.modak.deploy.plugins.plugin_utils.several import MOST, check_names, wait_and_fetch

try:
    from modak.catalogue.site import catalogue_for
    from modak.documents import find_sources
    from modak.errors import InputError, ModakError
    from modak.images.store import realise
    from modak.jobrequest import job_request
    from modak.jobs.control import JobInput, Present, Preview
    from modak.jobs.logs import explanation
    from modak.model.job import JobResult
    from modak.model.plan import Plan
    from modak.optimiser.changes import with_secrets
    from modak.performance.places import store_in_use
    from modak.performance.recording import add_results, check_recordable, is_learnt_from
    from modak.secret_values import checked_values, environment_file, hashes_of
    from modak.terminal import visible
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
        self._secrets = self._reader(search, arguments)
        self._jobs = self.jobs(task_vars, outage=arguments["outage"])
        self._transport = self.transport(task_vars)
        template = _text(arguments["template"])
        if arguments["plans"] is not None:
            plans = [self._completed(value) for value in arguments["plans"]]
            check_names(plans)
            return self._several(plans, template, arguments, search, task_vars)
        plan = self._completed(arguments["plan"])
        if arguments["state"] == "absent":
            return self._absent(plan)
        if self._task.check_mode:
            return self._preview(plan, template, restarted=arguments["state"] == "restarted", retry=arguments["retry"])
        results = results_folder(arguments["results"], self._task, task_vars, plan.name)
        return self._run(plan, template, arguments, search, results)

    def _completed(self, value: Any) -> Plan:
        plan = plan_of(value)
        if plan.application.secret_environment and not plan.secrets:  # it was made by the command modak
            plan = with_secrets(plan, hashes_of(plan, self._secrets))
        return plan

    def _several(
        self,
        plans: list[Plan],
        template: str | None,
        arguments: dict[str, Any],
        search: list[Path],
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """Submit the jobs of several plans together, and wait for all of them."""
        if arguments["state"] != "present" or arguments["record"] or arguments["follow"]:
            raise InputError("plans: not supported with 'record', 'follow', or another state than 'present'")
        if self._task.check_mode:
            previews = [self._preview(plan, template, restarted=False, retry=arguments["retry"]) for plan in plans]
            return {
                "changed": any(preview["changed"] for preview in previews),
                "jobs": [preview["job"] for preview in previews],
                "diff": [preview["diff"] for preview in previews],
            }
        inputs = [self._input(plan, search) for plan in plans]
        outcomes = self._jobs.present_all(inputs, template=template, retry=arguments["retry"])
        present = [item for item in outcomes if isinstance(item, Present)]
        made = any(item.made for item in present)
        if failed := [
            (plan, item) for plan, item in zip(plans, outcomes, strict=True) if not isinstance(item, Present)
        ]:
            jobs = [item.job.id if isinstance(item, Present) else None for item in outcomes]
            return {"changed": made, "failed": True, "ids": jobs, "msg": _not_submitted(failed, len(plans))}
        returned = {"changed": made, "diff": [_diff(item.script, item.made) for item in present]}
        if not arguments["wait"]:
            return {**returned, "jobs": [result.model_dump(mode="json") for result in self._seen(present)]}
        folders = [results_folder(arguments["results"], self._task, task_vars, plan.name) for plan in plans]
        fetched = wait_and_fetch(self._jobs, present, folders, arguments["timeout"] or None)
        return {**returned, **fetched, "changed": made or fetched["changed"]}

    def _input(self, plan: Plan, search: list[Path]) -> JobInput:
        transport = self._transport
        has_image = plan.chosen.image is not None and plan.chosen.runtime != "native"
        request = job_request(plan)
        return JobInput(
            request,
            find_sources(plan.application, search),
            realise=(lambda directory: realise(transport, request, directory)) if has_image else None,
            secrets=lambda: environment_file(checked_values(plan, self._secrets)),
        )

    def _seen(self, present: list[Present]) -> list[JobResult]:
        """Return the jobs as they are; of one that was just submitted nothing else is known yet than that."""
        seen = iter(self._jobs.see_all([item.job for item in present if not item.made]))
        return [self._jobs.submitted(item.job) if item.made else next(seen) for item in present]

    def _absent(self, plan: Plan) -> dict[str, Any]:
        if not self._task.check_mode:
            return {"changed": self._jobs.absent(job_request(plan)), "job": None}
        doomed = visible("".join(f"{thing}\n" for thing in self._jobs.doomed(job_request(plan))))
        return {"changed": bool(doomed), "job": None, "diff": {"before": doomed, "after": ""}}

    def _preview(self, plan: Plan, template: str | None, *, restarted: bool, retry: bool | None) -> dict[str, Any]:
        preview: Preview = self._jobs.preview(job_request(plan), template, again=restarted, retry=retry)
        job = None if preview.job is None else self._jobs.see(preview.job).model_dump(mode="json")
        submits = restarted or preview.job is None or preview.ended is not None
        returned = {"changed": submits, "job": job, "script": preview.script, "diff": _diff(preview.script, submits)}
        return returned | _before(preview.ended)

    def _run(
        self, plan: Plan, template: str | None, arguments: dict[str, Any], search: list[Path], results: Path
    ) -> dict[str, Any]:
        if arguments["record"]:
            _check_recording(plan, wait=arguments["wait"])
        item = self._input(plan, search)
        if arguments["state"] == "restarted":
            # What cannot be submitted must not cost the job that is there.
            self._jobs.preview(item.request, template, again=True)
            self._jobs.absent(item.request)
        present: Present = self._jobs.present(
            item.request,
            item.sources,
            template=template,
            realise=item.realise,
            secrets=item.secrets,
            retry=arguments["retry"],
        )
        returned = {"script": present.script, "diff": _diff(present.script, present.made), **_before(present.ended)}
        if not arguments["wait"]:
            result = self._jobs.see(present.job)
            return {**returned, "changed": present.made, "job": result.model_dump(mode="json")}
        (result,) = self._jobs.wait([present], timeout=arguments["timeout"] or None, follow=arguments["follow"])
        fetched = self._jobs.fetch_results(present.job, result, results)
        write_reports(self._jobs, [fetched.result])
        returned |= {"changed": present.made or fetched.changed, "job": fetched.result.model_dump(mode="json")}
        self.reporter.end(fetched.result)
        returned |= warnings([fetched.result])
        if fetched.result.state == "completed":
            return returned | self._recorded(plan, fetched.result, search, arguments["record"])
        del returned["script"]  # Ansible prints all that a failed task returns.
        return {**returned, "failed": True, "msg": explanation(item.request, fetched.result)}

    def _recorded(self, plan: Plan, result: JobResult, search: list[Path], record: bool | None) -> dict[str, Any]:
        """Add what the job took, or has tried, to the store of measurements; return how many were not known.

        It is recorded unless the user has said no, and then a store that cannot be written is no reason to fail a job
        that has completed.
        """
        if record:
            return {"recorded": _record(plan, result, search)}
        if record is None and is_learnt_from(plan, result):
            try:
                return {"recorded": _record(plan, result, search)}
            except (ModakError, OSError) as error:
                self.reporter.notice(f"the job is not recorded: {error}")
        return {}


def _before(ended: JobResult | None) -> dict[str, Any]:
    """Return what the task says of an attempt that ended badly and is followed by another one."""
    return {} if ended is None else {"previous": ended.model_dump(mode="json")}


def _check_recording(plan: Plan, *, wait: bool) -> None:
    """Raise InputError, before anything is submitted, for what can be no measurement in the end."""
    check_recordable(plan, "record")
    if not wait:
        raise InputError("record: a job that is not waited for has no end to record: wait, or leave it out")


def _record(plan: Plan, result: JobResult, search: list[Path]) -> int:
    """Add what the job took to the store of measurements; return how many of these were not known."""
    catalogue = catalogue_for(plan.request.catalogue, search)
    return add_results([Path(str(result.results))], catalogue, store_in_use())[0]


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
