#!/usr/bin/python
# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action modak.deploy.onnx_ensemble."""

from __future__ import annotations

DOCUMENTATION = r"""
module: onnx_ensemble
short_description: Convert trained models to a bundle of ONNX files
version_added: "0.1.0"
description:
  - Converts one model or an ensemble to ONNX, compares each with its original, and writes a bundle with a manifest.
  - This is done on the controller, where the results of training jobs are fetched to. The models' frameworks must be
    installed there, or in an interpreter that the request names for a model.
  - A bundle that was made of the same request and the same files is left as it is, unless it is damaged.
extends_documentation_fragment:
  - modak.deploy.search
  - modak.deploy.no_diff
author: the modak authors (@modak)
options:
  bundle:
    description: Folder of the bundle.
    type: path
    required: true
  document:
    description: The request as a YAML file, see C(docs/onnx.md); found in O(search_paths). This or O(request).
    type: path
  request:
    description: The request as data.
    type: dict
  state:
    description: Whether the bundle is to be there; V(absent) removes it with what its conversion has kept beside it.
    type: str
    choices: [present, absent]
    default: present
  force:
    description: Write the bundle again even if nothing has changed. Models that were converted before are reused.
    type: bool
    default: false
  jobs:
    description: Models that are converted at the same time.
    type: int
    default: 1
attributes:
  check_mode:
    description: Can run in check mode and tell whether a bundle would be written.
    support: full
"""

EXAMPLES = r"""
- name: Convert what the job has trained
  modak.deploy.onnx_ensemble:
    bundle: results/digits.bundle
    document: convert.yml
    search_paths: [results/train]
  register: converted

- name: Remove it
  modak.deploy.onnx_ensemble:
    bundle: results/digits.bundle
    state: absent
"""

RETURN = r"""
bundle:
  description: The bundle's folder, as an absolute path.
  returned: success
  type: str
  sample: /home/user/results/digits.bundle
reason:
  description: Why it was written; empty when it was left as it is.
  returned: with O(state=present)
  type: str
  sample: the request or one of its files has changed
models:
  description: The models, their frameworks, and how each comparison ended; empty where it would only be written.
  returned: with O(state=present)
  type: list
  elements: dict
  sample: [{"name": "forest", "framework": "sklearn", "validation": "passed"}]
rule:
  description: How the models are combined.
  returned: where there is a bundle
  type: str
  sample: mean
inputs:
  description: What the bundle takes.
  returned: where there is a bundle
  type: list
  elements: str
  sample: ["x: float32[batch, 64]"]
outputs:
  description: What it gives.
  returned: where there is a bundle
  type: list
  elements: str
  sample: ["probabilities: float32[batch, 10]"]
"""
