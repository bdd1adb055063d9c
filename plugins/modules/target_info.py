#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.target_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: target_info
short_description: Discover what a target has
version_added: "0.1.0"
description:
  - Returns the host's hardware, container runtimes, MPI libraries, Python packages, the file systems of home and
    workspace with their free space, and its scheduler with the partitions or queues, in one round trip.
  - The host needs a POSIX shell, and no Python.
  - Returns this as the section C(target) of a deployment document as well, and compares it with a given one.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  target:
    description:
      - The target as it is described, the section C(target) of a deployment document.
      - Without it the scheduler is detected; with it only the named one is queried.
    type: dict
attributes:
  check_mode:
    description: Can run in check mode and return the same.
    support: full
"""

EXAMPLES = r"""
- name: Discover the cluster
  modak.deploy.target_info:
  register: found

- name: Keep it as the section of a document
  ansible.builtin.copy:
    content: "{{ {'target': found.target} | to_nice_yaml(indent=2) }}"
    dest: cluster.yml
    mode: "0644"
  delegate_to: localhost

- name: Compare the cluster with its description
  modak.deploy.target_info:
    target: "{{ target }}"
  register: compared
  failed_when: compared.differences
"""

RETURN = r"""
facts:
  description: All that was found; C(modak schema facts) prints its schema.
  returned: success
  type: dict
  sample: {"hostname": "login1", "scheduler": "slurm", "glibc": "2.36"}
target:
  description: The section C(target) for what was found; what is unknown or usual is left out.
  returned: success
  type: dict
  sample: {"name": "login1", "type": "slurm", "host": "login1"}
differences:
  description: One sentence for each thing that the given description says otherwise than it was found.
  returned: success
  type: list
  elements: str
  sample: ["target.partitions[0].nodes: the description says 64, and 60 was found"]
"""
