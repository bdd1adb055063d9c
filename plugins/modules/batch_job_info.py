#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.batch_job_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: batch_job_info
short_description: Get information about a batch job
version_added: "0.1.0"
description:
  - Asks the scheduler and the job's own records on the target of the play, once.
  - Changes nothing and fetches no files.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  plan:
    description: The Plan of the job, as M(modak.deploy.optimise) returned it.
    type: dict
  directory:
    description: The job's folder on the target, as an absolute path, where the Plan is not available.
    type: str
attributes:
  check_mode:
    description: Can run in check mode and return the same.
    support: full
notes:
  - Exactly one of O(plan) and O(directory) must be given.
seealso:
  - module: modak.deploy.batch_job
"""

EXAMPLES = r"""
- name: See how far the job is
  modak.deploy.batch_job_info:
    plan: "{{ decision.plan }}"
  register: info

- name: Say it
  ansible.builtin.debug:
    msg: "{{ info.job.state if info.job else 'not submitted' }}"
"""

RETURN = r"""
job:
  description: The job, with the keys that M(modak.deploy.batch_job) returns; null when none was submitted.
  returned: success
  type: dict
  sample: {"id": "4711", "state": "running"}
"""
