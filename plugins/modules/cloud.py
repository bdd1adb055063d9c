#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.cloud."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cloud
short_description: Decide what is created and deleted at a provider of instances
version_added: "0.1.0"
description:
  - Decides what a Plan for a target of type C(cloud) needs at its provider, what to do with existing resources, and
    what to delete. It contacts nobody; the role C(modak.deploy.cloud) lists, creates and deletes.
  - Keeps a record and the instance's SSH host key in the user's state folder before anything is created.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  plan:
    description: The Plan, as M(modak.deploy.optimise) returns it.
    type: dict
  target:
    description:
      - In place of O(plan), the target, for the steps V(identify), V(describe), V(release) and V(forget). It names
        its deployment as C(cloud.deployment), except for V(identify).
    type: dict
  name:
    description: Prefix for a new name of a deployment.
    type: str
    default: ""
  step:
    description:
      - V(identify) returns the name of the deployment whose runs share the instance of O(target), a new one where the
        target gives none.
      - V(describe) returns what is needed, and fails with the command to install a collection that is missing.
      - V(decide) returns the next step towards one running instance, and those that are surplus.
      - V(begin) records that a creation begins, and returns the user data, which is a secret.
      - V(define) returns the documents by which the tasks of some providers create what is needed.
      - V(judge) fails with O(message) unless it says that the provider has no capacity for the instance type in
        O(zone), and returns which zone is next.
      - V(find) returns whether an instance runs.
      - V(interrupted) returns whether the provider has taken a spot instance back, and how often the job is then
        started again.
      - V(reach) returns the connection variables of the running instance.
      - V(await) waits until the host of the task, which is the instance, answers and cloud-init has ended.
      - V(release) returns what is to be deleted, and whether an instance may come to be listed yet.
      - V(forget) removes the record.
    type: str
    choices: [identify, describe, decide, begin, define, judge, find, interrupted, reach, await, release, forget]
    required: true
  listed:
    description: What the provider lists, as its modules return it.
    type: dict
    default: {}
  message:
    description: The error of a creation.
    type: str
    default: ""
  zone:
    description: Which of the target's zones was tried, counted from 0.
    type: int
    default: 0
  host_key:
    description: The public host key that O(step=begin) returned.
    type: str
    default: ""
  instance:
    description: The instance on which the job ran, for O(step=interrupted).
    type: str
    default: ""
  settle:
    description: Seconds within which an instance that was created may not be listed yet.
    type: float
    default: 60
  timeout:
    description: Seconds to wait for the instance.
    type: float
    default: 600
attributes:
  check_mode:
    description: Shows what would be created, with its price, and what would be deleted.
    support: full
"""

EXAMPLES = r"""
- name: Say what is needed
  modak.deploy.cloud:
    plan: "{{ application_plan }}"
    step: describe
  register: described
"""

RETURN = r"""
resources:
  description: What the deployment needs; of O(step=describe).
  returned: describe
  type: dict
  sample: {"identity": "modak-0123456789abcdef", "lease": 5400}
identity:
  description: Value of the tag C(modak:deployment) of everything that belongs to the deployment.
  returned: describe
  type: str
  sample: modak-0123456789abcdef
deployment:
  description: Name of the deployment; empty where no instance is created for the target.
  returned: identify
  type: str
  sample: instance-0123456789abcdef
created:
  description: Whether the provider creates the target.
  returned: describe
  type: bool
  sample: true
role:
  description: Role that has the provider's tasks.
  returned: describe
  type: str
  sample: modak.deploy.cloud
python:
  description: Python package that the provider's collection needs for the Python of localhost.
  returned: describe
  type: str
  sample: boto3
summary:
  description: One line for each thing that is created, with its price.
  returned: describe
  type: list
  elements: str
  sample: ["instance modak-digits: c7i.xlarge in us-east-1, 0.1785 USD an hour, 0.27 USD at most"]
step:
  description: V(create), V(wait), V(replan) or V(use).
  returned: decide
  type: str
  sample: create
surplus:
  description: Instances to terminate.
  returned: decide
  type: list
  elements: str
  sample: []
instance:
  description: The instance that is there.
  returned: decide and reach
  type: dict
  sample: {"id": "i-0123456789abcdef0"}
running:
  description: Whether an instance of the deployment runs and has an address.
  returned: find
  type: bool
  sample: true
user_data:
  description: User data of the instance, with its private host key.
  returned: begin
  type: str
  sample: "#cloud-config"
host_key:
  description: Public half of that host key.
  returned: begin
  type: str
  sample: ssh-ed25519 AAAA...
definitions:
  description: Documents by name, such as XML, for the provider's own tasks.
  returned: define
  type: dict
  sample: {"domain": "<domain type='kvm'/>"}
instance_type:
  description: The instance type that is not available.
  returned: judge
  type: str
  sample: c7i.xlarge
reason:
  description: Why it is not available; empty while there is another zone.
  returned: judge
  type: str
  sample: InsufficientInstanceCapacity
zone:
  description: The zone to try next, counted from 0; 0 where all of them were tried.
  returned: judge
  type: int
  sample: 1
host:
  description: Name of the instance's host for the inventory.
  returned: reach
  type: str
  sample: modak-0123456789abcdef
host_vars:
  description: Connection variables.
  returned: reach
  type: dict
  sample: {"ansible_connection": "ssh", "ansible_host": "192.0.2.7"}
instances:
  description: Instances to terminate.
  returned: release
  type: list
  elements: str
  sample: ["i-0123456789abcdef0"]
groups:
  description: Security groups to delete.
  returned: release
  type: list
  elements: str
  sample: ["sg-0123456789abcdef0"]
pending:
  description: Whether the creation of an instance was begun a short time ago, and none is listed that is not ending.
  returned: release
  type: bool
  sample: false
"""
