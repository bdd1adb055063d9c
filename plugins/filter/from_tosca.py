# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter modak.deploy.from_tosca."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.modak.deploy.plugins.plugin_utils.library import missing

try:
    from modak_deploy.documents import plain
    from modak_deploy.errors import ModakError
    from modak_deploy.terminal import visible
    from modak_deploy.tosca.sodalite import sections
    from modak_deploy.tosca.translate import documents, image_documents, named

    HAS_MODAK = True
except ImportError:
    HAS_MODAK = False

DOCUMENTATION = r"""
name: from_tosca
short_description: Turn the properties of TOSCA nodes into the sections of a deployment document
version_added: "0.1.0"
description:
  - Drops what is not given (an empty text, list or map, and 0 for a number that must be above 0).
  - Turns sizes and times with their units into bytes and seconds.
author: the modak authors (@modak)
options:
  _input:
    description:
      - The inputs of the operations of the node types C(modak.nodes.Job) and C(modak.nodes.ContainerImage), with the
        keys O(_input.tosca_application), O(_input.tosca_target), O(_input.tosca_request) and O(_input.tosca_job).
    type: dict
    required: true
    suboptions:
      tosca_application:
        description: Properties of the application; an image has none.
        type: dict
      tosca_target:
        description: Properties of the target that hosts it.
        type: dict
        required: true
      tosca_deployment:
        description: Name of the deployment to which the target's instance belongs, where one is created.
        type: str
      tosca_request:
        description: Objectives and limits for the decision.
        type: dict
      tosca_job:
        description: Options of the job.
        type: dict
      tosca_sodalite:
        description: In place of those, the properties of the parts of a job with SODALITE's node types.
        type: dict
      tosca_name:
        description: Name of the template of such a job.
        type: str
      tosca_manager:
        description: Properties of the workload manager that hosts it.
        type: dict
      tosca_found:
        description: Type of target that a workload manager turned out to be whose scheduler is V(batch).
        type: str
"""

EXAMPLES = r"""
- name: Show the document that a blueprint's node stands for
  ansible.builtin.debug:
    msg: "{{ node | modak.deploy.from_tosca }}"
  vars:
    node:
      tosca_application: {tosca_name: digits, script: train.py, units: 12}
      tosca_target: {type: slurm, host: login.example.org, port: 0}
      tosca_job: {wall_time: 30 m, partition: ""}
"""

RETURN = r"""
_value:
  description:
    - The sections C(application), C(target), C(request) and C(job).
    - For SODALITE's node types also C(files), the texts of files that the job needs, by name.
  type: dict
  sample: {"application": {"name": "digits", "script": "train.py"}}
"""


def from_tosca(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a deployment document for what a node's operation was told."""
    if not HAS_MODAK:
        raise AnsibleFilterError(missing())
    inputs = plain(node)
    try:
        deployment = inputs.get("tosca_deployment") or ""
        if "tosca_application" not in inputs:
            return named(image_documents(inputs["tosca_target"], inputs.get("tosca_job")), deployment)
        if inputs.get("tosca_sodalite"):
            job = {**inputs["tosca_sodalite"], "tosca_name": inputs["tosca_name"]}
            return sections(job, inputs["tosca_manager"], inputs.get("tosca_found") or "")
        application, target = inputs["tosca_application"], inputs["tosca_target"]
        return named(documents(application, target, inputs.get("tosca_request"), inputs.get("tosca_job")), deployment)
    except ModakError as error:
        raise AnsibleFilterError(visible(str(error))) from error


class FilterModule:
    """Ansible's list of the filters in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"from_tosca": from_tosca}
