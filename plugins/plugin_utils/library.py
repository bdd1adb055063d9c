# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the library is there: the package modak_deploy of the distribution modak-deploy."""

from __future__ import annotations

import sys

DISTRIBUTION = "modak-deploy"


def missing() -> str:
    """Return that the library is not installed, and what to do about it."""
    return (
        f"The Python package {DISTRIBUTION} is not installed for the Python that runs Ansible; run: "
        f"{sys.executable} -m pip install {DISTRIBUTION}"
    )
