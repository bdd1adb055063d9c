#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.image."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image
short_description: Bring a container image to a target, or build it there, once
version_added: "0.1.0"
description:
  - Ensures that a container image is on the target of the play and passes its checks.
  - An image of a registry is pulled by its digest, once for all machines that share the image folder, and put in place
    by renaming, however many tasks ask for it at the same time. An image that the catalogue describes is built from its
    definition as a job on the target, and never twice from the same definition.
  - Before the task succeeds, hash, processor, labels and, where keys are given, the signature are checked.
  - The target needs a POSIX shell and the container runtime. It needs no Python.
  - Logins for registries are taken from where podman, docker and apptainer keep them on the controller. They reach the
    target by standard input, and stay there only while the image is pulled.
author: the modak authors (@modak)
options:
  plan:
    description:
      - A Plan, as M(modak.deploy.optimise) returns it, whose image is needed for its runtime.
      - With a Plan that runs natively the task does nothing.
    type: dict
  name:
    description:
      - A name of the catalogue, a reference (C(docker://), C(oras://), C(library://)), or the absolute path of a file
        on the target, without a Plan.
    type: str
  digest:
    description:
      - What the image stood for when it was brought, as RV(image.digest) tells. With it nobody is asked what the name
        stands for now, so that V(absent) removes what was brought.
    type: str
  target:
    description: The target as in a deployment's document, without a Plan; a plain machine when absent.
    type: dict
  job:
    description:
      - Options of a build's job as in a deployment's document, such as partition, account and wall time.
      - A build is one process on one node, with the cores that one node's ranks would have. Arrays, dependencies,
        scratch folders, mail and what runs after an application do not apply to it.
    type: dict
  state:
    description:
      - V(present) pulls or builds the image, unless it is there, and checks it.
      - V(absent) removes it from the target, unless a queued or running job needs it.
    type: str
    choices: [present, absent]
    default: present
  runtime:
    description:
      - The container runtime that the image is for, without a Plan.
      - V(apptainer), V(singularity), V(podman), V(docker), V(charliecloud), or one that another distribution adds.
    type: str
    default: apptainer
  compression:
    description:
      - How a new image file is compressed. V(zstd) is smaller than V(gzip) and read twice as fast; V(lz4) and V(none)
        start faster still, and take one and a half and four times the room.
      - When absent V(zstd) for apptainer, and V(gzip), which everything reads, for the others.
    type: str
    choices: [gzip, zstd, lz4, none]
  microarchitecture:
    description: Microarchitecture that a source build is compiled for, by archspec's name, without a Plan.
    type: str
  keys:
    description: Files of public keys, PEM or PGP, on the controller. The image must carry a signature by one of them.
    type: list
    elements: path
    default: []
  catalogue:
    description: Folders on the controller with a site's own images and recipes, besides those of the Plan.
    type: list
    elements: str
    default: []
  search_paths:
    description: Folders on the controller that are searched for relative catalogue folders, in this order.
    type: list
    elements: path
    default: []
  network:
    description: A build downloads its Python packages from the package index; otherwise the controller sends them.
    type: bool
    default: false
  timeout:
    description: Longest time to wait for a build in seconds; no limit when V(0). The build continues afterwards.
    type: int
    default: 0
  logs:
    description: Folder on the controller that gets the log of a build that failed.
    type: path
    default: results
attributes:
  check_mode:
    description: Can run in check mode. The target is asked whether the image is there, and nothing is changed.
    support: full
  diff_mode:
    description: Shows the image that comes or goes.
    support: full
notes:
  - C(become) is not supported. Images and builds belong to the user who logs in to the target.
seealso:
  - module: modak.deploy.optimise
  - module: modak.deploy.batch_job
"""

EXAMPLES = r"""
- name: Have the image of a Plan on the target
  modak.deploy.image:
    plan: "{{ decision.plan }}"

- name: Pull an image that must be signed by the site
  modak.deploy.image:
    name: oras://registry.example.org/ai/keras:3.15
    keys: [site.pub]

- name: Compile an image for the nodes of a partition, as a batch job there
  modak.deploy.image:
    name: numexpr-2.14-src-cpu
    microarchitecture: zen3
    target:
      name: cluster
      type: slurm
    job:
      partition: long
      wall_time: 4h
"""

RETURN = r"""
image:
  description: The image; null for a Plan that runs natively.
  returned: success
  type: dict
  contains:
    path:
      description: File on the target, or name in the store of podman or docker.
      type: str
    reference:
      description: What was asked for.
      type: str
    digest:
      description: What it stood for.
      type: str
    sha256:
      description: Hash of the file.
      type: str
    size:
      description: Bytes.
      type: int
    architecture:
      description: The processors that it is for.
      type: str
    labels:
      description: Labels inside.
      type: dict
    signed:
      description: Whether one of the keys signed it.
      type: bool
"""
