# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an action runs the commands that yield an application's secrets."""

from __future__ import annotations


class ModuleDocFragment:
    """The option ``secret_commands``."""

    DOCUMENTATION = r"""
options:
  secret_commands:
    description:
      - Run the commands on the controller that C(secret_environment) of the application names.
      - A document alone never runs anything there.
    type: bool
    default: false
"""
