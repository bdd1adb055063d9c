#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.tosca_inputs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tosca_inputs
short_description: Take the variables that a TOSCA orchestrator sets as they are
version_added: "0.1.0"
description:
  - Ansible renders what an orchestrator hands over as extra variables. A script or an argument that holds double braces
    would become another one, or an error.
  - This reads the variables of the role C(modak.deploy.tosca) by their names, unrendered; the result of a module is not
    rendered.
  - Runs on the controller and contacts nothing. Of SODALITE's node of the optimiser it writes the script.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return the same.
    support: full
"""

EXAMPLES = r"""
- name: Take what the orchestrator says as it is
  modak.deploy.tosca_inputs:
  register: tosca_raw
"""

RETURN = r"""
given:
  description: The variables, with their defaults where the orchestrator sets none.
  returned: success
  type: dict
  contains:
    tosca_application:
      description: Properties of the node of type C(modak.nodes.Job), and the template's name as C(tosca_name).
      type: dict
    tosca_target:
      description: Properties of the node of type C(modak.nodes.Target) that hosts it, or that may host it.
      type: dict
    tosca_request:
      description: Objectives and limits for the decision.
      type: dict
    tosca_job:
      description: Options of the job.
      type: dict
    tosca_image:
      description: Properties of the node of type C(modak.nodes.ContainerImage), and its attribute C(digest).
      type: dict
    tosca_ensemble:
      description: Properties of the node of type C(modak.nodes.OnnxEnsemble), and the template's name as C(tosca_name).
      type: dict
    tosca_sodalite:
      description: In place of those, the properties of the parts of a job with SODALITE's node types.
      type: dict
    tosca_script:
      description: Script of a job that is no node of its own there, and is waited for.
      type: str
    tosca_task:
      description: Properties of one of SODALITE's image pullers or data movers, and its kind.
      type: dict
    tosca_model:
      description: What the maps of a node of type C(sodalite.nodes.modak.job) came to; its script is written.
      type: dict
    tosca_older:
      description: Own properties of a job with SODALITE's node types before 2021.
      type: dict
    tosca_manager:
      description: Properties of the node of type C(sodalite.nodes.hpc.WM) that hosts such a job.
      type: dict
    tosca_name:
      description: Name of the template of such a job.
      type: str
    tosca_files:
      description: Texts of files that the job needs, by name; they are written beside the playbook.
      type: dict
    tosca_input_folders:
      description: Folders on the controller in which inputs are looked for besides the artifacts.
      type: list
    tosca_results:
      description: Folder on the controller under which the run gets its own.
      type: str
    tosca_wait:
      description: Wait for the job's end and fetch its results.
      type: bool
    tosca_timeout:
      description: Seconds to wait at most, without a limit when 0.
      type: int
    tosca_plan:
      description: The Plan, once there is one.
      type: dict
    tosca_unplanned:
      description: What was asked, where no target that was asked can run the application.
      type: dict
    tosca_refusal:
      description: Why none of them can.
      type: str
    tosca_told:
      description: Properties of a relationship's target, which its source is to be told.
      type: dict
    tosca_application_told:
      description: What that target was told of an application in this way.
      type: dict
    tosca_runtime_told:
      description: What that target was told of a container runtime in this way.
      type: dict
    tosca_environment:
      description: Environment variables that the target has for a job.
      type: dict
  sample: {"tosca_plan": {}, "tosca_wait": true}
"""
