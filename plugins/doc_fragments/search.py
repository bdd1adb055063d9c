# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an action looks for the files of an application."""

from __future__ import annotations


class ModuleDocFragment:
    """The option ``search_paths``."""

    DOCUMENTATION = r"""
options:
  search_paths:
    description:
      - Folders on the controller that are searched first for relative paths of the application, in this order.
      - Then come the folders of documents, of the playbook, of the inventory, and the working directory.
    type: list
    elements: path
    default: []
"""
