# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the library is there: the package modak of the distribution modak-deploy."""

from __future__ import annotations

import sys
from importlib.util import find_spec

DISTRIBUTION = "modak-deploy"


def missing() -> str:
    """Return why the library cannot be used, and what to do about it.

    A distribution named modak, a task manager of others, has an import package of the same name.
    """
    try:
        foreign = find_spec("modak") is not None and find_spec("modak.deploy") is None
    except (ImportError, ValueError):  # a module modak.py, which has no packages
        foreign = True
    if foreign:
        return (
            f"The Python package 'modak' of {sys.executable} belongs to another project; run: {sys.executable} -m pip "
            f"uninstall modak, and then: {sys.executable} -m pip install {DISTRIBUTION}"
        )
    return (
        f"The Python package {DISTRIBUTION} is not installed for the Python that runs Ansible; run: "
        f"{sys.executable} -m pip install {DISTRIBUTION}"
    )
