#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.tune."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tune
short_description: Search for the fastest levers of an application on a target
version_added: "0.1.0"
description:
  - Submits jobs on the task's host that start the application with several configurations each, stop every one as soon
    as its rate is known, and choose the next ones by what was measured.
  - What is measured is recorded unless O(record=false), so that the next Plan of M(modak.deploy.optimise) chooses the
    winner.
  - A search that is ended goes on where it was when it is called again. One that has come to its end submits nothing.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  application:
    description: What is tuned, the section C(application) of a deployment document.
    type: dict
    required: true
  target:
    description: Where it is run, the section C(target); this machine when absent.
    type: dict
  request:
    description: Objectives and limits for the decision, the section C(request).
    type: dict
  job:
    description: Options of the job, the section C(job).
    type: dict
  rounds:
    description: Largest number of jobs, besides the one that confirms the winner.
    type: int
    default: 8
  batch:
    description: Number of configurations that each job tries.
    type: int
    default: 6
  budget:
    description: Longest time for the trials of one job, in seconds.
    type: int
    default: 120
  confirm:
    description: Number of times that the winner and the default are measured again, alternately.
    type: int
    default: 3
  record:
    description: Add what is measured to your measurements, for later Plans.
    type: bool
    default: true
  results:
    description:
      - Folder on the controller for the results of the jobs.
      - In a play of several hosts it gets a folder for each host first, unless the task has C(run_once) or the path has
        the host's name in it. Each host has a search of its own.
    type: path
    default: results
attributes:
  check_mode:
    description: Submits and records nothing. Says that the search would go on, or what one came to that has ended.
    support: full
requirements:
  - Optuna on the controller, C(pip install 'modak-deploy[tune]')
seealso:
  - module: modak.deploy.optimise
"""

EXAMPLES = r"""
- name: Find the fastest levers of a solver
  modak.deploy.tune:
    application:
      name: solver
      type: hpc
      executable: ./solver
      inputs: [solver]
      progress: 'step (\d+)'
      workload: {model: my-solver, unit: iteration, units: 1500}
    target: {name: cluster, type: slurm, host: login}
  register: tuned

- name: Show it
  ansible.builtin.debug:
    msg: "{{ tuned.tuning.winner }}: {{ tuned.tuning.gain }}"
"""

RETURN = r"""
tuning:
  description: What the search came to; null in check mode where it has not ended.
  returned: success
  type: dict
  sample:
    default: as-is
    winner: malloc-hugepages+omp-close
    levers: [malloc-hugepages, omp-close]
    gain: 1.43
    low: 1.38
    high: 1.51
    tried: 14
    failed: 1
    rounds: 4
    recorded: 14
    reason: 2 rounds in a row brought no gain above 2%
"""
