# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument spec of an action, from the documentation of its module: each option is written down once."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import yaml

_OF_THE_SPEC = ("type", "elements", "choices", "default", "required", "aliases", "no_log")
"""Keys of a documented option that are keys of an argument spec too."""
_MODULES = "ansible_collections.modak.deploy.plugins.modules"
_FRAGMENTS = "ansible_collections.modak.deploy.plugins.doc_fragments"


@cache
def arguments_of(name: str) -> dict[str, dict[str, Any]]:
    """Return the argument spec of the module ``name`` of this collection."""
    documentation = _read(import_module(f"{_MODULES}.{name}").DOCUMENTATION)
    options = documentation.get("options") or {}
    for fragment in documentation.get("extends_documentation_fragment") or []:
        shared = import_module(f"{_FRAGMENTS}.{fragment.rpartition('.')[2]}").ModuleDocFragment
        options = {**(_read(shared.DOCUMENTATION).get("options") or {}), **options}
    return _spec(options)


def _read(text: str) -> dict[str, Any]:
    # libyaml's loader where PyYAML has it: the documentation of an action is read in each of its tasks.
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one


def _spec(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    spec = {}
    for name, option in options.items():
        spec[name] = {key: option[key] for key in _OF_THE_SPEC if key in option}
        if "suboptions" in option:
            spec[name]["options"] = _spec(option["suboptions"])
    return spec
