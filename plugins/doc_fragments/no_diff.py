# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action says that has no difference to show."""

from __future__ import annotations


class ModuleDocFragment:
    """The attribute ``diff_mode``."""

    DOCUMENTATION = r"""
options: {}
attributes:
  diff_mode:
    description: There are no differences to show.
    support: none
"""
