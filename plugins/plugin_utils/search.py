# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where relative paths of an application are looked for on the controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible import context


def search_folders(explicit: Sequence[str], task_vars: dict[str, Any]) -> list[Path]:
    """Return the folders in order: those given, those of documents given by ``-e @``, playbook's, inventory's, cwd."""
    documents = [text[1:] for text in context.CLIARGS.get("extra_vars") or () if str(text).startswith("@")]
    nearby = [task_vars[name] for name in ("playbook_dir", "inventory_dir") if task_vars.get(name)]
    folders = [Path(path).expanduser() for path in explicit]
    folders += [Path(path).expanduser().parent for path in reversed(documents)]
    folders += [Path(path) for path in nearby]
    return list(dict.fromkeys(folder.absolute() for folder in [*folders, Path()]))
