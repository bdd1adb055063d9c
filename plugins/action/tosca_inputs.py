# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the variables that an orchestrator sets as they are, so that nothing in them is taken for a template."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction

try:
    from modak_deploy.documents import plain
    from modak_deploy.errors import InputError
    from modak_deploy.tosca.sodalite_modak import saved
    from modak_deploy.tosca.sodalite_older import execution
    from modak_deploy.tosca.sodalite_tasks import script_of
except ImportError:
    pass  # ModakAction says so before anything here is used

DEFAULTS: dict[str, Any] = {
    "tosca_application": {},
    "tosca_target": {},
    "tosca_deployment": "",
    "tosca_request": {},
    "tosca_job": {},
    "tosca_image": {},
    "tosca_ensemble": {},
    "tosca_sodalite": {},
    "tosca_older": {},
    "tosca_task": {},
    "tosca_model": {},
    "tosca_script": "",
    "tosca_manager": {},
    "tosca_name": "",
    "tosca_files": {},
    "tosca_input_folders": [],
    "tosca_results": "~/.modak/results",
    "tosca_wait": True,
    "tosca_timeout": 0,
    "tosca_plan": {},
    "tosca_unplanned": {},
    "tosca_refusal": "",
    "tosca_told": {},
    "tosca_application_told": {},
    "tosca_runtime_told": {},
    "tosca_environment": {},
}
"""What an orchestrator may say, and what holds where it does not."""


class ActionModule(ModakAction):
    """modak.deploy.tosca_inputs."""

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        given = {name: plain(task_vars.get(name, default)) for name, default in DEFAULTS.items()}
        for name, default in DEFAULTS.items():
            if type(given[name]) is not type(default):
                raise InputError(f"{name}: must be of the type {type(default).__name__}, not {given[name]!r}")
        if given["tosca_model"]:
            made = saved(given["tosca_model"], write=not task_vars.get("ansible_check_mode"))
            return {"changed": made["changed"], "given": {**given, "tosca_model": made}}
        if given["tosca_task"]:
            given["tosca_older"] = {**given["tosca_older"], "script": script_of(given["tosca_task"])}
        if given["tosca_older"]:
            own = given["tosca_older"]
            folders = [Path(task_vars.get("playbook_dir") or "."), Path(os.environ.get("PWD") or ".")]
            given["tosca_sodalite"] = execution({**own, **given["tosca_sodalite"]}, folders, given["tosca_files"])
        # Nothing else waits for a job that has its script itself.
        given["tosca_wait"] = given["tosca_wait"] or bool(given["tosca_script"] or given["tosca_task"])
        return {"changed": False, "given": given}
