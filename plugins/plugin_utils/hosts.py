# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Ansible reaches a target: its name in the inventory and the variables of its connection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

try:
    from modak_deploy.model.target import Target
    from modak_deploy.shell import join
except ImportError:
    pass  # what uses this says so before

LOCAL = "this-machine"
"""Name of a target without a host; Ansible warns of a second localhost."""
REACHING = ("host", "user", "port", "private_key", "known_hosts")
"""Fields of a target that say how to reach it, and nothing of what it is."""


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
        matches["ansible_ssh_common_args"] = join(["-o", f"UserKnownHostsFile={_path(target.known_hosts)}"])
    return matches


def _path(text: str) -> str:
    return str(Path(os.path.expandvars(text)).expanduser())
