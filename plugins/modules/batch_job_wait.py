#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.batch_job_wait."""

from __future__ import annotations

DOCUMENTATION = r"""
module: batch_job_wait
short_description: Wait for many jobs of a target at once, and fetch their results
version_added: "0.1.0"
description:
  - Waits for jobs that M(modak.deploy.batch_job) submitted with O(modak.deploy.batch_job#module:wait=false).
  - All jobs are asked for by one command a poll, however many they are.
  - Fails when one of them did not complete, once all have ended, and names up to five of those.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  plans:
    description: The Plans of the jobs, as M(modak.deploy.optimise) returned them; each run has its own name.
    type: list
    elements: dict
    required: true
  timeout:
    description: Longest time to wait for the jobs' ends in seconds; no limit when V(0). The jobs continue afterwards.
    type: int
    default: 0
  outage:
    description: Seconds for which the target or its scheduler may be silent while the jobs are waited for.
    type: int
    default: 900
  results:
    description:
      - Folder on the controller; each run gets a folder of its name in it. It may be relative to the working directory.
      - In a play of several hosts it gets a folder for each host first; see M(modak.deploy.batch_job).
    type: path
    default: results
attributes:
  check_mode:
    description: Tells how the jobs are now, and neither waits nor fetches files.
    support: full
seealso:
  - module: modak.deploy.batch_job
  - module: modak.deploy.batch_job_info
"""

EXAMPLES = r"""
- name: Submit all jobs
  modak.deploy.batch_job:
    plan: "{{ item }}"
    wait: false
  loop: "{{ plans }}"
  loop_control:
    label: "{{ item.name }}"

- name: Wait for all of them
  modak.deploy.batch_job_wait:
    plans: "{{ plans }}"
  register: ended
"""

RETURN = r"""
jobs:
  description: The jobs in the order of the Plans, with the keys that M(modak.deploy.batch_job) returns.
  returned: when the jobs were found
  type: list
  elements: dict
  sample: [{"id": "4711", "state": "completed"}]
"""
