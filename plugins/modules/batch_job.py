#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.batch_job."""

from __future__ import annotations

DOCUMENTATION = r"""
module: batch_job
short_description: Run the job of a Plan on a machine or a cluster, once
version_added: "0.1.0"
description:
  - Copies the files of a Plan to the target of the play, submits its job to the scheduler that the Plan names, waits
    until it has ended, and fetches its results.
  - A job is submitted once. It carries a tag made from the Plan, in the scheduler and in its folder on the target, so a
    task that runs again finds the queued, running or completed job and follows it, whatever happened to the first run.
    A Plan that does something else has another tag and is another job.
  - A job that failed, was cancelled or timed out is submitted again, as its next attempt, by a task that runs again.
    The task says so, and returns the end of the previous attempt as RV(previous). The files of that attempt are moved
    to C(attempts/NUMBER) in the job's folder on the target, and its logs and its end in the results. The last five
    attempts are kept, and the working directory of the latest one. A job that was lost after it had started may have
    done its work, and is run again only with O(state=restarted).
  - The target needs a POSIX shell, C(tar) and the scheduler's commands. It needs no Python.
  - A Plan for a target of type C(kubernetes) runs as a Job of the cluster. The controller creates, follows and deletes
    it, with the credentials of C(kubectl). O(plans), O(follow) and another O(template) are not supported there.
  - While the task waits, each change of the job's state is shown in one line, with the reason for which it waits and
    the start that Slurm or OpenPBS expects, where they say so. A position in the queue is not shown, because no
    scheduler's answer about single jobs holds one. Stopping the task does not stop the job.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.secrets
author: the modak authors (@modak)
options:
  plan:
    description: The Plan, as M(modak.deploy.optimise) returns it. This or O(plans) is required.
    type: dict
  plans:
    description:
      - The Plans of several jobs of the target, in place of O(plan). They are submitted together, waited for together,
        and their results fetched together, which takes a few connections and not several for each job.
      - With O(wait=false) a job that was just submitted is returned as V(queued), and the scheduler is not asked again.
      - Each job is submitted once, as it is alone. Where some cannot be submitted the task fails, and the others go on.
      - Not supported with O(record), O(follow), or another O(state) than V(present).
      - Nothing is added to the measurements, not even what the jobs tried.
    type: list
    elements: dict
  state:
    description:
      - V(present) submits the job unless that has been done, and follows it.
      - V(restarted) cancels and removes what there is of the job, and submits it again.
      - V(absent) cancels the job, waits until it is gone, and removes its folder on the target and nothing else.
    type: str
    choices: [present, restarted, absent]
    default: present
  wait:
    description: Wait until the job has ended, and fetch its results. See M(modak.deploy.batch_job_info), too.
    type: bool
    default: true
  timeout:
    description: Longest time to wait for the job's end in seconds; no limit when V(0). The job continues afterwards.
    type: int
    default: 0
  outage:
    description: Seconds for which the target or its scheduler may be silent while the job is waited for.
    type: int
    default: 900
  follow:
    description: Show the job's output while it is written.
    type: bool
    default: false
  results:
    description:
      - Folder on the controller that gets a folder of the run's name with outputs, metrics, logs and plan.
      - In a play of several hosts it gets a folder for each host first, unless the task has C(run_once) or the path has
        the host's name in it.
      - Files that are there already and have not changed are not transferred again.
    type: path
    default: results
  record:
    description:
      - Add the times of the completed job to the measurements of the user who runs the play, for later Plans.
      - A job that exists already is added once. Whether it is new does not count as a change.
      - The store is the address in the environment variable E(MODAK_MEASUREMENTS), or a file in the user's data folder.
      - When absent, what the job tried is added, and its time as a whole only if it ran undisturbed, with hardly any
        other work on its node when it started. V(false) adds nothing.
    type: bool
  retry:
    description:
      - Whether a job that did not complete is run again. With V(false) its status is returned.
      - By default as C(retry) of the Plan's job says, which is V(true) unless the document sets it.
    type: bool
  template:
    description: Jinja template of the job script on the controller, in place of the one of the role batch_job.
    type: path
attributes:
  check_mode:
    description: Can run in check mode. The scheduler is asked whether it would take the job, and nothing is changed.
    support: full
  diff_mode:
    description: Shows the job script that is submitted.
    support: full
notes:
  - C(become) is not supported. A job and its files belong to the user who logs in to the target.
seealso:
  - module: modak.deploy.optimise
  - module: modak.deploy.batch_job_info
"""

EXAMPLES = r"""
- name: Decide how to run the application
  modak.deploy.optimise:
    application:
      name: digits
      script: train.py
    search_paths: ["{{ playbook_dir }}"]
  register: decision

- name: Run it, and fetch its results to ./results/digits
  modak.deploy.batch_job:
    plan: "{{ decision.plan }}"
    search_paths: ["{{ playbook_dir }}"]
  register: run

- name: Submit it without waiting
  modak.deploy.batch_job:
    plan: "{{ decision.plan }}"
    search_paths: ["{{ playbook_dir }}"]
    wait: false

- name: Run many jobs
  modak.deploy.batch_job:
    plans: "{{ decisions | map(attribute='plan') }}"

- name: Cancel it and remove what it made on the target
  modak.deploy.batch_job:
    plan: "{{ decision.plan }}"
    state: absent
"""

RETURN = r"""
recorded:
  description: How many measurements were new.
  returned: when the job completed and is recorded
  type: int
  sample: 1
jobs:
  description: The jobs in the order of O(plans), with the keys of RV(job).
  returned: with O(plans), when all jobs were submitted
  type: list
  elements: dict
  sample: [{"id": "4711", "state": "completed"}]
ids:
  description: The scheduler's ids of the jobs in the order of O(plans), null for one that was not submitted.
  returned: with O(plans), when some jobs were not submitted
  type: list
  elements: str
  sample: ["4711", null]
job:
  description: What became of the job; null when it is absent.
  returned: with O(plan), on success, and when the job ended badly
  type: dict
  contains:
    id:
      description: The scheduler's id.
      type: str
      returned: always
      sample: "4711"
    scheduler:
      description: Name of the scheduler.
      type: str
      returned: always
      sample: slurm
    attempt:
      description: How often the job has been run, this time included.
      type: int
      returned: always
      sample: 1
    tag:
      description: What the job is found by, in the scheduler and on disk.
      type: str
      returned: always
      sample: modak-0123456789abcdef
    state:
      description:
        - One of V(queued), V(held), V(running), V(completed), V(failed), V(timeout), V(cancelled), V(out_of_memory),
          V(node_failure), V(preempted), V(dependency_never_satisfied), V(never_starts) and V(lost).
      type: str
      returned: always
      sample: completed
    reason:
      description: Why it waits, or why it ended as it did.
      type: str
      returned: always
      sample: the application ended with exit code 3
    exit_code:
      description: Exit code of the application.
      type: int
      returned: always
      sample: 0
    signal:
      description: Number of the signal that ended it.
      type: int
      returned: always
      sample: 15
    host:
      description: The node that it ran on, the first one where there were several.
      type: str
      returned: always
      sample: n1
    submitted:
      description: When it was submitted, in seconds since the epoch.
      type: float
      returned: always
      sample: 1795204844.0
    started:
      description: When the application started, in seconds since the epoch.
      type: float
      returned: always
      sample: 1795204846.1
    ended:
      description: When the application ended, in seconds since the epoch.
      type: float
      returned: always
      sample: 1795204890.7
    seconds:
      description: Wall seconds of the application.
      type: float
      returned: always
      sample: 44.6
    directory:
      description: The job's folder on the target.
      type: str
      returned: always
      sample: /home/user/.modak/runs/digits-0123456789abcdef
    results:
      description: Folder on the controller that the results were fetched to.
      type: str
      returned: always
      sample: /home/me/results/digits
    not_fetched:
      description:
        - What the outputs hold that cannot be fetched, such as sockets and symbolic links that lead out of the results,
          each with the reason. The task warns of it.
      type: list
      elements: str
      returned: always
      sample: ["out/latest: it is a symbolic link to '/scratch/run7', outside the results"]
    metrics:
      description: What the application wrote to its metrics file.
      type: dict
      returned: always
      sample: {"accuracy": 0.98}
    tuning:
      description:
        - What the launcher counted and tried while the program ran; null for a program that ran without it.
        - C(counted) has a unit of work, how many there were, and the seconds of start, compilation and a steady unit;
          C(trials) has each set of levers that was tried, how fast it was, whether its results were the same and
          whether it stayed on; C(settled) has what the program went on with.
      type: dict
      returned: always
      sample:
        counted: [{"name": "inference: ResNet", "unit": "call", "units": 100, "seconds": 54.1, "steady": 0.5}]
        trials: [{"of": "ResNet", "levers": ["pytorch-channels-last"], "gain": 1.31, "kept": true}]
        settled: [{"of": "ResNet", "levers": ["pytorch-channels-last"], "gain": 1.31}]
previous:
  description: How the attempt before ended, with the keys of RV(job).
  returned: when a job that ended badly is run again
  type: dict
  sample: {"id": "4710", "attempt": 1, "state": "failed", "reason": "the application ended with exit code 3"}
script:
  description: The job script.
  returned: with O(plan), on success, when O(state) is not V(absent)
  type: str
  sample: "#!/bin/sh\n..."
"""
