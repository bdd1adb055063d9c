#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.deployment."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment
short_description: Check the description of a deployment and return how to reach its target
version_added: "0.1.0"
description:
  - Checks the sections of a deployment document as a whole, and names every unknown key and wrong value.
  - Returns the host of each target, with the variables that Ansible needs to reach it.
  - A host of the inventory may be described as a target by its variable C(modak_site), with the keys of the section
    C(target); keys of the document take precedence.
  - A target may instead name a site of the user's files of sites, by its name or as a mapping with the key C(site); its
    settings take precedence over C(modak_site), and a warning says so if a host has both.
  - Runs on the controller and contacts nothing.
extends_documentation_fragment:
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  documents:
    description:
      - Deployment documents, as a list of files or as text with commas between them. Sections of a later document take
        the place of an earlier one's.
      - They are read as data, with their lines in errors. Nothing in them is rendered as a template.
      - The sections must not be given as well.
    type: raw
  application:
    description:
      - What is run; an error if missing, unless O(image) is given.
    type: raw
  other_targets:
    description: Alternative targets, a list of such sections.
    type: raw
  image:
    description:
      - The container image that is brought to the target, where no application is run.
      - Only O(target) and O(job) are read then.
    type: str
  target:
    description: Where it is run.
    type: raw
  request:
    description: Objectives and limits for the decision.
    type: raw
  job:
    description: Options of the job.
    type: raw
  variables:
    description:
      - Names of the variables that the user has set, among which a misspelt section is looked for.
      - An extra variable among them with nearly the name of one of the playbooks' variables is an error.
    type: list
    elements: str
    default: []
  playbook:
    description: The playbook that O(variables) are for; an extra variable that it does not support is an error.
    type: str
    choices: [deploy, benchmark, tune]
    default: deploy
  force:
    description: Variable of the playbooks, which overrides what O(documents) say; checked and returned in RV(options).
    type: raw
  record:
    description: As O(force).
    type: raw
  wait:
    description: As O(force).
    type: raw
  timeout_seconds:
    description: As O(force).
    type: raw
  results:
    description: As O(force).
    type: raw
  search_paths:
    description: As O(force). The documents' own folders are added in RV(options).
    type: raw
  secret_commands:
    description: As O(force), but no document may set it.
    type: raw
attributes:
  check_mode:
    description: Can run in check mode and return the same.
    support: full
"""

EXAMPLES = r"""
- name: Check what the user has described
  modak.deploy.deployment:
    application:
      name: digits
      script: train.py
    target:
      name: cluster
      type: slurm
      host: login.example.org
  register: checked

- name: Check a document that is read as data
  modak.deploy.deployment:
    documents: [deploy.yml, slurm.yml]

- name: Add the target to the inventory
  ansible.builtin.add_host:
    name: "{{ checked.host }}"
    groups: [modak_target]
    ansible_host: "{{ checked.host_vars.ansible_host | default(omit) }}"
"""

RETURN = r"""
deployment:
  description: The description with all defaults filled in.
  returned: success
  type: dict
  sample: {"application": {"name": "digits"}}
sections:
  description: The sections as they are written, with targets completed from C(modak_site).
  returned: success
  type: dict
  sample: {"application": {"name": "digits", "script": "train.py"}}
options:
  description: What steers the playbooks, each with its type.
  returned: success
  type: dict
  sample: {"force": false, "wait": true, "results": "results"}
target:
  description: The section C(target), completed from C(modak_site) of the inventory's host.
  returned: success
  type: dict
  sample: {"name": "cluster", "type": "slurm", "host": "login.example.org"}
host:
  description: Name of the target's host in the inventory.
  returned: success
  type: str
  sample: login.example.org
targets:
  description:
    - RV(target), RV(host) and RV(host_vars) of each target, the first one's first, and whether it is yet to be created.
  returned: success
  type: list
  elements: dict
  sample: [{"target": {"name": "cluster"}, "host": "login.example.org", "host_vars": {}, "created": false}]
host_vars:
  description: Connection variables; empty for a host that the inventory has already.
  returned: success
  type: dict
  sample: {"ansible_connection": "ssh", "ansible_host": "login.example.org"}
"""
