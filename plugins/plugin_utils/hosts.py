# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Ansible reaches a target: its name in the inventory and the variables of its connection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.loader import connection_loader

try:
    from modak_deploy.model.target import Target
    from modak_deploy.paths import expanded
    from modak_deploy.shell import join
    from modak_deploy.transport.ssh_connection import CHECKS, as_options, host_key_files
except ImportError:
    pass  # what uses this says so before

LOCAL = "this-machine"
"""Name of a target without a host; Ansible warns of a second localhost."""
REACHING = ("host", "user", "port", "private_key", "known_hosts")
"""Fields of a target that say how to reach it, and nothing of what it is."""
VARIABLES = (
    "ansible_connection",
    "ansible_host",
    "ansible_user",
    "ansible_port",
    "ansible_ssh_private_key_file",
    "ansible_ssh_args",
)
"""Connection variables that they become."""


def host_vars(target: Target) -> dict[str, Any]:
    """Return the connection variables for a host that the inventory does not have."""
    if target.host is None:
        return {"ansible_connection": "local"}
    matches: dict[str, Any] = {"ansible_connection": "ssh", "ansible_host": target.host}
    if target.user is not None:
        matches["ansible_user"] = target.user
    if target.port is not None:
        matches["ansible_port"] = target.port
    if target.private_key is not None:
        matches["ansible_ssh_private_key_file"] = _path(target.private_key)
    if target.known_hosts is not None:
        matches["ansible_ssh_args"] = _checked(Path(_path(target.known_hosts)))
    return matches


def _checked(known_hosts: Path) -> str:
    """Return ssh's first arguments, with which the host's key is checked whatever else is configured.

    ssh takes the first value of each option. Ansible (2.19) gives it ``ssh_args``, then what follows from
    ``host_key_checking``, and only then ``ssh_common_args``. The user's own ``ssh_args``, such as those for a shared
    connection, come after ours.
    """
    connection_loader.get("ssh", class_only=True)  # without which its options are not defined
    own = constants.config.get_config_value("ssh_args", plugin_type="connection", plugin_name="ssh")
    return f"{join(as_options({**CHECKS, **host_key_files(known_hosts)}))} {own or ''}".rstrip()


def _path(text: str) -> str:
    return str(expanded(os.path.expandvars(text)))
