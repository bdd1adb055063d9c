#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: service
short_description: Run the service of a Plan on a machine until it is undeployed
version_added: "0.1.0"
description:
  - Starts the replicas of a Plan whose application has the section C(service), waits until they are ready, and forwards
    clients to them by HAProxy. A replica that ends by itself is started again.
  - A task that runs again checks that clients are answered, and changes nothing. A Plan that does something else causes
    a rolling replacement. New replicas are started on other ports, clients are forwarded to them once they are ready,
    and the old ones are ended when they have completed their requests. If a new replica does not become ready, it is
    ended, the old ones stay, and the task fails with the last lines of its log.
  - The parts of a service are recorded on the target before they are started. A task after one that was killed
    completes the deployment, and nothing exists twice.
  - The target needs Linux, a POSIX shell, C(tar), C(haproxy) unless the service has no front, and C(curl), C(wget) or
    C(bash) for HTTP health checks. It needs no Python.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.secrets
author: the modak authors (@modak)
options:
  plan:
    description: The Plan, as M(modak.deploy.optimise) returns it.
    type: dict
    required: true
  state:
    description:
      - V(present) has the service as the Plan describes it.
      - V(restarted) replaces every replica besides, although nothing has changed.
      - V(absent) ends the service and removes all that it made on the target, and nothing else.
      - V(looked_up) returns the service as it is, and changes nothing.
    type: str
    choices: [present, restarted, absent, looked_up]
    default: present
  wait:
    description: A service is always waited for until it is ready; V(false) is refused.
    type: bool
    default: true
attributes:
  check_mode:
    description: Can run in check mode, where nothing is changed.
    support: full
  diff_mode:
    description: Shows in check mode what would be started and ended, and for V(absent) what is removed.
    support: full
notes:
  - C(become) is not supported. A service and its files belong to the user who logs in to the target.
seealso:
  - module: modak.deploy.optimise
  - module: modak.deploy.batch_job
"""

EXAMPLES = r"""
- name: Decide how to run the service
  modak.deploy.optimise:
    application:
      name: digits
      type: ai_inference
      executable: /opt/serve/bin/modak
      arguments: [serve-model, bundle, --http-port, "{port}", --grpc-port, "{grpc}", --metrics-port, "{metrics}"]
      inputs: [bundle]
      service:
        port: 8080
        health: /v2/health/ready
        further_ports: [grpc, metrics]
    search_paths: ["{{ playbook_dir }}"]
  register: decision

- name: Have it run
  modak.deploy.service:
    plan: "{{ decision.plan }}"
    search_paths: ["{{ playbook_dir }}"]
  register: run

- name: End it, and remove what it made on the target
  modak.deploy.service:
    plan: "{{ decision.plan }}"
    state: absent
"""

RETURN = r"""
service:
  description: The service as it is; null when it is absent.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the service, that of the run.
      type: str
      returned: always
      sample: digits
    url:
      description: Where clients connect.
      type: str
      returned: always
      sample: http://127.0.0.1:8080
    ready:
      description: Whether clients are answered.
      type: bool
      returned: always
      sample: true
    revision:
      description: How often the record on the target was written.
      type: int
      returned: always
      sample: 3
    directory:
      description: Folder of the record on the target.
      type: str
      returned: always
      sample: /home/user/.modak/services/digits
    replicas:
      description:
        - The replicas, each with C(id), C(port), C(state) (V(starting), V(serving) or V(retired)), C(ready),
          C(restarts) and C(directory), its folder on the target.
      type: list
      elements: dict
      returned: always
      sample: [{"id": "0123456789abcdef", "port": 23817, "state": "serving", "ready": true, "restarts": 0}]
"""
