# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the description of a deployment and tell how to reach its target."""

from __future__ import annotations

import difflib
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.hosts import LOCAL, host_vars
from ansible_collections.modak.deploy.plugins.plugin_utils.search import locator

try:
    from modak.documents import parse_deployment, parse_place, plain
    from modak.errors import InputError
except ImportError:
    pass  # ModakAction says so before anything here is used

SECTIONS = ("application", "target", "request", "job")
PLACE = ("target", "job")
"""What is read where an image is brought and nothing is run."""


class ActionModule(ModakAction):
    """modak.deploy.deployment."""

    ARGUMENTS = {
        **{section: {"type": "raw"} for section in SECTIONS},
        "other_targets": {"type": "raw"},
        "image": {"type": "str"},
        "variables": {"type": "list", "elements": "str", "default": []},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        read = SECTIONS if arguments["image"] is None else PLACE
        sections = {name: plain(arguments[name]) for name in read if arguments[name] is not None}
        if not sections.get("application") and arguments["image"] is None:
            raise InputError(_no_application(arguments["variables"]))
        if arguments["image"] is None and arguments["other_targets"]:
            sections["other_targets"] = plain(arguments["other_targets"])
        others = sections.get("other_targets", [])
        sites = [_complete(sections, "target", sections.get("target"), task_vars)]
        if isinstance(others, list):
            sites += [_complete(others, number, other, task_vars) for number, other in enumerate(others)]
        parse = parse_deployment
        if arguments["image"] is not None:
            parse = parse_place
            sections = {name: value for name, value in sections.items() if value}  # the role's own default is {}
        deployment = parse(sections, origin="the variables", locate=locator((*SECTIONS, "other_targets")))
        described = [sections.get("target", {"name": "localhost"}), *others]
        targets = [deployment.target, *getattr(deployment, "other_targets", [])]
        places = [
            {"target": told, "host": host or LOCAL, "host_vars": {} if known else host_vars(target)}
            for told, (host, known), target in zip(described, sites, targets, strict=True)
        ]
        return {
            "changed": False,
            "deployment": deployment.model_dump(mode="json"),
            **places[0],
            "targets": places,
        }


def _complete(sections: Any, key: Any, target: Any, task_vars: dict[str, Any]) -> tuple[str | None, bool]:
    """Complete a target from its host in the inventory; return the host where one is told, and whether it is there."""
    host = _host_of(target)
    known = host in task_vars.get("groups", {}).get("all", [])
    if known:
        sections[key] = {**_site(host, task_vars), **target}
    return host, known


def _host_of(target: Any) -> str | None:
    """Return the target's host where it is told; what is wrong with a target is told when it is parsed."""
    return target.get("host") if isinstance(target, dict) else None


def _site(host: str, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Return what the inventory says of the host as a target."""
    site = plain(task_vars["hostvars"][host].get("modak_site", {}))
    if not isinstance(site, dict):
        raise InputError(f"modak_site of the host {host} in the inventory must be a mapping, as the section 'target'")
    return site


def _no_application(variables: list[str]) -> str:
    others = [name for name in variables if not name.startswith("application")]  # those are the role's own
    misspelt = difflib.get_close_matches("application", others, n=1, cutoff=0.8)
    if misspelt:
        return f"The variable '{misspelt[0]}' is unknown; did you mean 'application'?"
    return "The variable 'application' is missing or empty: describe what is to be run, as in -e @deploy.yml"
