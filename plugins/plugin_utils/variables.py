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
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of

try:
    from modak_deploy.documents import RunOptions, plain
    from modak_deploy.errors import InputError
    from modak_deploy.paths import expanded
    from modak_deploy.util.text import close_match
except ImportError:
    pass  # the actions say so before anything here is used

SECTIONS = ("application", "target", "other_targets", "request", "job")
"""The sections of a deployment document."""
DOCUMENTS = "deployment"
"""The variable that names documents."""
OTHERS = {"benchmark": (), "tune": ("batch", "budget", "confirm", "rounds")}
"""Playbooks that do something else than to deploy, and their own variables besides those of the role of their name."""


def options() -> list[str]:
    """Return the names of the variables that steer the playbooks."""
    return list(RunOptions.model_fields)


def check_extra_variables(loader: DataLoader, names: Collection[str], playbook: str = "deploy") -> None:
    """Raise InputError for an extra variable among ``names`` that is nearly one of the playbook's, or not for it.

    An extra variable of another name may belong to the user's inventory, so that it passes. What is for another
    playbook passes where it is no extra variable: documents and the inventory are for all of them.
    """
    valid_names = [*SECTIONS, DOCUMENTS, *options(), *OTHERS.get(playbook, ())]
    for name in load_extra_vars(loader):
        if name not in names:
            continue
        if playbook in OTHERS and name in options() and name not in arguments_of(playbook):
            raise InputError(f"the extra variable '{name}' is not supported by '{playbook}'", hint="leave it out")
        if name not in valid_names and (near := _near(name, valid_names, playbook)):
            raise InputError(f"the extra variable '{name}' is unknown", hint=f"did you mean '{near}'?")


def _near(name: str, valid_names: Collection[str], playbook: str) -> str | None:
    """Return what a name is probably meant to be; of a role's own variables, only what follows the prefix counts."""
    prefix = f"{playbook}_"
    if playbook not in OTHERS or not name.startswith(prefix):
        return close_match(name, valid_names, cutoff=0.8, prefix=6)
    own, given = arguments_of(playbook), name.removeprefix(prefix)
    near = None if given in own else close_match(given, own, cutoff=0.8, prefix=6)
    return near and prefix + near


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
    return [expanded(file.removeprefix("@")) for file in files]


def check_single_source(given: Iterable[str]) -> None:
    """Raise InputError where a section comes as a variable although documents are named: one would hide the other."""
    if names := sorted(given):
        raise InputError(
            f"the variable '{names[0]}' is set as well as '{DOCUMENTS}'",
            hint="put that section into a document, such as -e deployment=deploy.yml,other.yml",
        )
