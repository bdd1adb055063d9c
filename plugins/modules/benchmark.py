#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.benchmark."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Measure configurations of an application against its default
version_added: "0.1.0"
description:
  - Runs the default, modak's choice and what is named in interleaved rounds of random order, as one job on the target,
    until each mean is known well enough, and fetches every repeat.
  - Runs that other work has disturbed are repeated, and a configuration with other results than the default's is
    refused.
  - A second run finds the job of the first. One that was ended goes on where it was.
  - The node that the job runs on needs Python 3.8 or later.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  application:
    description: What is measured, the section C(application) of a deployment document.
    type: dict
    required: true
  target:
    description: Where it is measured, the section C(target); this machine when absent.
    type: dict
  request:
    description: Objectives and limits for the decision, the section C(request).
    type: dict
  job:
    description: Options of the benchmark's job, the section C(job).
    type: dict
  configurations:
    description: Candidates to measure beside the default and modak's choice, as C(modak plan --explain) names them.
    type: list
    elements: str
    default: []
  levers:
    description: Levers, each added to the default.
    type: list
    elements: str
    default: []
  images:
    description: Images of the catalogue, each running the default.
    type: list
    elements: str
    default: []
  everything:
    description: Measure all candidates, at most 24.
    type: bool
    default: false
  least:
    description: Minimum number of rounds; 5 when absent.
    type: int
  most:
    description: Maximum number of rounds; 30 when absent.
    type: int
  width:
    description: Stop when the 95 % interval of each mean is within this share of it; 0.03 when absent.
    type: float
  limit:
    description: No round begins after this time, in seconds or as text such as C(30m); 1h when absent.
    type: raw
  seed:
    description: Seed of the order within the rounds; 1 when absent. Another one makes another job.
    type: int
  retries:
    description: How often a disturbed run is repeated within its round; 2 when absent.
    type: int
  others:
    description: Share of the processors that other processes may use before a run counts as disturbed; 0.1 when absent.
    type: float
  tolerance:
    description: Permitted relative difference of results from the default's; 0.0001 when absent.
    type: float
  compare:
    description: Compare results with the default's; true when absent.
    type: bool
  results:
    description: Folder on the controller; the run gets a folder of its name in it.
    type: path
    default: results
  record:
    description: Add what was measured to the measurement store.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in check mode and tell what would be measured.
    support: full
"""

EXAMPLES = r"""
- name: What is modak's choice worth?
  modak.deploy.benchmark:
    application: "{{ application }}"
    target: "{{ target }}"
    limit: 30m
  register: measured

- name: Say so
  ansible.builtin.debug:
    msg: "{{ measured.answer }}"
"""

RETURN = r"""
configurations:
  description: Names of what is measured, the default first.
  returned: success
  type: list
  elements: str
  sample: [as-is, malloc-hugepages]
answer:
  description: What it showed, in one or two sentences.
  returned: success, not in check mode
  type: str
  sample: "modak's choice, malloc-hugepages, was 1.21 times as fast as the default (1.18 to 1.24) in 12 rounds."
results:
  description: Folder on the controller with every repeat.
  returned: success, not in check mode
  type: str
  sample: /home/me/results/digits-benchmark
report:
  description: The report as a page.
  returned: success, not in check mode
  type: str
  sample: /home/me/results/digits-benchmark/report.html
"""
