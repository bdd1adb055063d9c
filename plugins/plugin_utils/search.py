# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where relative paths of an application are looked for on the controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible import context

try:
    from modak_deploy.diagnostics import Locate, Position
    from modak_deploy.documents import read_outline
    from modak_deploy.errors import InputError
    from modak_deploy.paths import expanded
except ImportError:
    pass  # the actions say so before anything here is used


def document_paths() -> list[Path]:
    """Return the documents given by ``-e @``, the one that stands over the others first."""
    extra_vars = [str(text) for text in context.CLIARGS.get("extra_vars") or ()]
    return [Path(text[1:]).expanduser() for text in reversed(extra_vars) if text.startswith("@")]


def locator(sections: Sequence[str]) -> Locate:
    """Return a function from a location in the variables to the file and line that it was written in, or to None.

    InputError when a document holds a number there that YAML reads otherwise than people: Ansible has lost how it was
    written.
    """
    documents = [outline for path in document_paths() if (outline := read_outline(path)) is not None]
    if diagnostics := [problem for document in documents for problem in document.diagnostics(sections)]:
        raise InputError(diagnostics)

    def locate(location: tuple[int | str, ...]) -> Position | None:
        holding = (document for document in documents if location and location[0] in document.sections())
        document = next(holding, None)
        return None if document is None else document.locate(location)

    return locate


def search_folders(explicit: Sequence[str], task_vars: dict[str, Any]) -> list[Path]:
    """Return the folders in order: those given, those of documents given by ``-e @``, playbook's, inventory's, cwd."""
    nearby = [task_vars[name] for name in ("playbook_dir", "inventory_dir") if task_vars.get(name)]
    folders = [expanded(path) for path in explicit]
    folders += [path.parent for path in document_paths()]
    folders += [Path(path) for path in nearby]
    return list(dict.fromkeys(folder.absolute() for folder in [*folders, Path()]))
