# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure configurations of an application against the default on the target of the task."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders

try:
    from modak_deploy.documents import parse_deployment, plain
    from modak_deploy.evidence.benchmark import carry_out, prepare
    from modak_deploy.evidence.benchmarked import answer, table_lines
    from modak_deploy.evidence.command import protocol_of, recorded
    from modak_deploy.evidence.configurations import Wanted
    from modak_deploy.evidence.report import JOB_REPORT, report_of_results, write_report
    from modak_deploy.jobrequest import job_request
    from modak_deploy.performance.recording import check_recordable
except ImportError:
    pass  # ModakAction says so before anything here is used

SECTIONS = ("application", "target", "request", "job")
PROTOCOL = {
    "least": "int",
    "most": "int",
    "width": "float",
    "limit": "raw",
    "seed": "int",
    "retries": "int",
    "others": "float",
    "tolerance": "float",
    "compare": "bool",
}


class ActionModule(JobAction):
    """modak.deploy.benchmark."""

    ARGUMENTS = arguments_of("benchmark")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        sections = {name: plain(arguments[name]) for name in SECTIONS if arguments[name] is not None}
        deployment = parse_deployment(sections, origin="the variables")
        transport = self.transport(task_vars)
        self.jobs(task_vars)
        prepared = prepare(
            deployment,
            transport,
            wanted=Wanted(*(arguments[name] for name in ("configurations", "levers", "images", "everything"))),
            protocol=protocol_of({name: arguments[name] for name in PROTOCOL}),
            search=search_folders(arguments["search_paths"], task_vars),
            default_python=task_vars.get("ansible_playbook_python") if deployment.target.host is None else None,
        )
        if arguments["record"]:
            check_recordable(prepared.configurations[0], "record")
        names = [plan.chosen.name for plan in prepared.configurations]
        if self._task.check_mode:
            exists = self.jobs(task_vars).find(job_request(prepared.plan)) is not None
            return {"changed": not exists, "configurations": names}
        results = results_folder(arguments["results"], self._task, task_vars, prepared.folder)
        finished, changed = carry_out(prepared, transport, results, reporter=self.reporter)
        write_report(report_of_results(finished.folder), finished.folder / JOB_REPORT)
        for line in table_lines(finished):
            self.show(line)
        if arguments["record"]:
            self.show(recorded(finished, self.show))
        return {
            "changed": changed,
            "configurations": names,
            "answer": answer(finished),
            "results": str(finished.folder),
            "report": str(finished.folder / JOB_REPORT),
        }
