#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.optimise."""

from __future__ import annotations

DOCUMENTATION = r"""
module: optimise
short_description: Decide how to run an application on a target
version_added: "0.1.0"
description:
  - Discovers the task's host, chooses among all candidates by measurements and models, and returns the Plan.
  - The decision is made on the controller; the host needs a POSIX shell, and no Python.
  - Nothing is submitted. The same input gives the same Plan, byte for byte except its date.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.secrets
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  application:
    description: What is run, the section C(application) of a deployment document; required unless O(plan) is given.
    type: dict
  target:
    description: Where it is run, the section C(target); this machine when absent.
    type: dict
  request:
    description: Objectives and limits for the decision, the section C(request).
    type: dict
  job:
    description: Options of the job, the section C(job).
    type: dict
  plan:
    description:
      - A Plan for another target, or the RV(unplanned) of one that cannot run the application. The same is planned for
        O(target), on the task's host, as well.
      - With the target that the Plan is for, its image is looked up from the task's host, and nothing else is decided.
      - The better Plan is returned, and describes the other one. It is kept in O(results).
    type: dict
  other_targets:
    description: Alternative targets, the section C(other_targets). The best is chosen. Needs O(answers).
    type: list
    elements: dict
    default: []
  ask:
    description: Only discover the task's host, and return its RV(answer); nothing is decided.
    type: bool
    default: false
  answers:
    description:
      - The RV(answer) of O(target) and of each of O(other_targets), in this order; the task's host is not asked then.
      - That of an instance that is yet to be created is empty. The image of the Plan is not looked up.
    type: list
    elements: str
  instance_type:
    description: Type of the instance that the deployment has already, for a target of type C(cloud).
    type: str
  unavailable_types:
    description: Instance types that the provider cannot give now, each with the reason.
    type: dict
    default: {}
  part:
    description:
      - The task's host is one of several targets; a Plan in O(results) that covers more of them is not replaced.
      - That it cannot run the application is not a failure then, and is returned as RV(unplanned) and RV(reason).
    type: bool
    default: false
  documents:
    description:
      - The files that the sections were read from, as the variable C(deployment) names them.
      - An error about an option of the job names its file and line.
    type: raw
  results:
    description:
      - Folder on the controller under which the Plan is kept as C(<run name>/plan.json).
      - In a play of several hosts each host has a folder there first; see M(modak.deploy.batch_job).
      - A Plan that lies there stays as long as the same is asked, though new measurements have come in.
    type: path
  force:
    description: Plan anew even if a kept Plan still holds.
    type: bool
    default: false
  deployed:
    description: Return the kept Plan as it is, whatever the description says now; without one, plan and keep nothing.
    type: bool
    default: false
  show:
    description: Show the Plan as a table while the play runs.
    type: bool
    default: true
attributes:
  check_mode:
    description: Can run in check mode and return the Plan; it is not kept then.
    support: full
"""

EXAMPLES = r"""
- name: Decide how to train on this machine
  modak.deploy.optimise:
    application:
      name: digits
      script: train.py
      framework:
        name: keras
      workload:
        model: mnist-cnn
        units: 12
    request:
      numerics: relaxed
  register: decision

- name: Show what was chosen and why
  ansible.builtin.debug:
    msg: "{{ decision.plan.chosen.name }}: {{ decision.plan.reason }}"
"""

RETURN = r"""
answer:
  description: What the target reported of itself, in Base64, for O(answers).
  returned: with O(ask)
  type: str
  sample: ''
plan:
  description: The Plan; C(modak schema plan) prints its schema.
  returned: success
  type: dict
  sample: {"schema": "modak.plan/2", "name": "digits", "chosen": {"name": "keras-tensorflow"}}
kept:
  description: That RV(plan) is the one that was deployed, whatever is asked now.
  returned: with O(deployed) where there is one
  type: bool
  sample: true
unplanned:
  description: What was asked, where no target that was asked can run the application; RV(plan) is empty then.
  returned: when there is no Plan
  type: dict
  sample: {}
reason:
  description: Why none of them can.
  returned: when there is no Plan
  type: str
  sample: 'on machine: job.gpus: 1 GPU per node is requested, but a node of the target machine has none'
tag:
  description: The mark that the Plan's job carries.
  returned: success
  type: str
  sample: modak-0123456789abcdef
table:
  description: The Plan as a table for people, line by line.
  returned: success
  type: list
  elements: str
  sample: ["Plan for digits on localhost (process)"]
"""
