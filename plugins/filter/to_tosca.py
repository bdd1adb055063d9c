# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter modak.deploy.to_tosca."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.modak.deploy.plugins.plugin_utils.library import missing

try:
    from modak_deploy.documents import plain
    from modak_deploy.tosca.translate import attributes, attributes_without_plan

    HAS_MODAK = True
except ImportError:
    HAS_MODAK = False

DOCUMENTATION = r"""
name: to_tosca
short_description: Turn a Plan and its job into attributes of a TOSCA node
version_added: "0.1.0"
description:
  - Gives the attributes of the node type C(modak.nodes.Job), which an orchestrator keeps and shows as outputs.
author: the modak authors (@modak)
positional: job
options:
  _input:
    description: The Plan; empty where no target that was asked can run the application.
    type: dict
    required: true
  decision:
    description: What M(modak.deploy.optimise) returned, which gives the reason where no Plan was made.
    type: dict
  job:
    description: The job as RV(modak.deploy.batch_job#module:job), once there is one.
    type: dict
"""

EXAMPLES = r"""
- name: Hand the attributes to the orchestrator
  ansible.builtin.set_stats:
    data: "{{ application_plan | modak.deploy.to_tosca(application_result) }}"
"""

RETURN = r"""
_value:
  description: The attributes by name.
  type: dict
  sample: {"job_id": "17", "job_state": "completed", "runtime": "native"}
"""


def to_tosca(
    plan: Mapping[str, Any], job: Mapping[str, Any] | None = None, decision: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the attributes of a node for a Plan and its job."""
    if not HAS_MODAK:
        raise AnsibleFilterError(missing())
    if not plan and decision:
        return attributes_without_plan(plain(decision["unplanned"]), plain(decision["reason"]))
    return attributes(plain(plan), None if job is None else plain(job))


class FilterModule:
    """Ansible's list of the filters in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"to_tosca": to_tosca}
