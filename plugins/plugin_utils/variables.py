# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the playbooks: their names, what stands near them, and the documents that one of them names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

try:
    from modak_deploy.documents import RunOptions, plain
    from modak_deploy.errors import InputError
    from modak_deploy.util.text import close_match
except ImportError:
    pass  # the actions say so before anything here is used

SECTIONS = ("application", "target", "other_targets", "request", "job")
"""The sections of a deployment document."""
DOCUMENTS = "deployment"
"""The variable that names documents."""


def options() -> list[str]:
    """Return the names of the variables that steer the playbooks."""
    return list(RunOptions.model_fields)


def check_extra_variables(loader: DataLoader, names: Collection[str]) -> None:
    """Raise InputError for an extra variable among ``names`` that is nearly one of the playbooks'.

    An extra variable of another name may belong to the user's inventory, so that it passes.
    """
    valid_names = [*SECTIONS, DOCUMENTS, *options()]
    for name in load_extra_vars(loader):
        if name in names and name not in valid_names and (near := close_match(name, valid_names, cutoff=0.8, prefix=6)):
            raise InputError(f"the extra variable '{name}' is unknown", hint=f"did you mean '{near}'?")


def document_files(value: Any) -> list[Path]:
    """Return the files that the variable ``deployment`` names: a list, or text with commas between the files."""
    given = plain(value)
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"the variable '{DOCUMENTS}' must be a file or a list of files, such as -e deployment=deploy.yml"
        )
    files = [part.strip() for part in parts if part.strip()]
    if not files:
        raise InputError(f"the variable '{DOCUMENTS}' is empty", hint="name a file, such as -e deployment=deploy.yml")
    return [Path(file.removeprefix("@")).expanduser() for file in files]


def check_single_source(given: Iterable[str]) -> None:
    """Raise InputError where a section comes as a variable although documents are named: one would hide the other."""
    if names := sorted(given):
        raise InputError(
            f"the variable '{names[0]}' is set as well as '{DOCUMENTS}'",
            hint="put that section into a document, such as -e deployment=deploy.yml,other.yml",
        )
