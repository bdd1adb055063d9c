# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a target about itself."""

from __future__ import annotations

from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.transport import AnsibleTransport

try:
    from modak_deploy.discovery import differences, parse_probe, probe_script, section, target_of
    from modak_deploy.discovery.asking import ask
    from modak_deploy.documents import check, plain
    from modak_deploy.model.target import Target
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(ModakAction):
    """modak.deploy.target_info."""

    ARGUMENTS = arguments_of("target_info")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        name = str(task_vars.get("inventory_hostname", "the target"))
        said = plain(arguments["target"])
        described = None if said is None else check(Target, said, origin="the argument target")
        local = str(self._connection.transport).rpartition(".")[2] == "local"
        python = task_vars.get("ansible_playbook_python") if local else None
        script = probe_script(described, default_python=python)
        facts = parse_probe(ask(AnsibleTransport(self, name), script, name), described)
        address = described or Target(name="found", host=None if local else name)
        reported = target_of(facts, address, described.name if described else None)
        return {
            "changed": False,
            "facts": facts.model_dump(mode="json"),
            "target": section(reported),
            "differences": [] if described is None else differences(described, facts),
        }
