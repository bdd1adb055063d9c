# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Unfurl runs the library's playbooks: with the ansible-playbook that knows modak, not the one inside Unfurl."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unfurl.configurator import Configurator

PLAYBOOKS = Path(__file__).resolve().parent.parent / "playbooks"
VARIABLE = "MODAK_ANSIBLE_PLAYBOOK"
"""Environment variable with the path of the ansible-playbook to use; the one on the path when unset."""
_WHOLE = "json"
"""The one key of the attribute ``plan``, whose value is the Plan as text."""
_STATISTICS = re.compile(r"^\s*RUN: (\{.*\})\s*$", re.MULTILINE)


class Operation(Configurator):
    """Runs the playbook of the operation's name as xOpera does: what it hands over becomes attributes of the node."""

    prefix = ""
    """What the names of the playbooks begin with."""

    def can_run(self, task: Any) -> bool | str:
        """Tell whether there is an ansible-playbook."""
        return True if _program() else f"there is no ansible-playbook on the path: name modak's in {VARIABLE}"

    def run(self, task: Any) -> Iterator[Any]:
        """Run the playbook to its end."""
        playbook = f"{self.prefix}{task.configSpec.operation}.yml"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path in [PLAYBOOKS / playbook, *_artifacts(task)]:
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, folder / path.name)
            (folder / "inputs.json").write_text(json.dumps(_inputs(task)))
            done = subprocess.run(
                [_program(), "-e", f"@{folder}/inputs.json", str(folder / playbook)],
                cwd=folder, env=_environment(task.environ), capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        told = _told(done.stdout)
        reason = told.pop("error", None)
        if done.returncode:
            words = reason or (done.stdout + done.stderr)[-2000:]
            task.logger.error("%s of %s failed: %s", task.configSpec.operation, task.target.name, words)
        for attribute, value in told.items():
            task.target.attributes[attribute] = _texts(attribute, value)
        yield task.done(done.returncode == 0, result={"error": reason} if reason else {})


class InstanceOperation(Operation):
    """Runs the playbooks of an instance that is created."""

    prefix = "instance_"


def _program() -> str | None:
    """Return the path of an ansible-playbook that is not Unfurl's own, which knows nothing of modak."""
    own = Path(sys.prefix) / "bin"
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if place and Path(place) != own]
    return os.environ.get(VARIABLE) or shutil.which("ansible-playbook", path=os.pathsep.join(places))


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what Unfurl sets for its own Ansible."""
    kept = {name: value for name, value in given.items() if name not in ("ANSIBLE_CONFIG", "PYTHONPATH")}
    if os.environ.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return {**kept, "ANSIBLE_SHOW_CUSTOM_STATS": "1", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default"}


def _artifacts(task: Any) -> list[Path]:
    base = Path(task.target.template.spec.base_dir)
    files = [artifact.file for artifact in task.target.template.artifacts.values()]
    return [base / file for file in files if file]


def _inputs(task: Any) -> dict[str, Any]:
    """Return what the operation is told. Unfurl makes one value of a list of one, and none of none."""
    given = {name: value for name, value in task.configSpec.inputs.items() if name.startswith("tosca_")}
    return {name: _evaluated(task.target, value) for name, value in given.items()}


def _evaluated(node: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)) in ("get_property", "get_attribute"):
            entity, name = next(iter(value.values()))
            holder = {"SELF": node, "HOST": node.parent}[entity]
            if name == "tosca_name":
                return holder.template.name
            found = _shaped(_plain(holder.attributes[name]), holder.template.propertyDefs.get(name))
            return json.loads(found.get(_WHOLE, "{}")) if name == "plan" else found
        return {key: _evaluated(node, item) for key, item in value.items()}
    return _plain(value)


def _shaped(value: Any, definition: Any) -> Any:
    """Return a property that was an input as the list or map that it should be."""
    kind = definition.schema.get("type") if definition is not None else None
    if kind == "list" and not isinstance(value, list):
        return [] if value is None else [value]
    return {} if kind == "map" and value is None else value


def _plain(value: Any) -> Any:
    """Return lists and maps of Unfurl's own as those of Python."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _texts(attribute: str, value: Any) -> Any:
    """Return an attribute with texts for the entries of a map, which Unfurl wants and the other tools do not mind."""
    if attribute == "plan":
        return {_WHOLE: json.dumps(value)}
    if isinstance(value, dict):
        return {key: item if isinstance(item, str) else json.dumps(item) for key, item in value.items()}
    return value


def _told(output: str) -> dict[str, Any]:
    """Return what the playbook handed over as custom statistics."""
    found = _STATISTICS.findall(output)
    return json.loads(found[-1]) if found else {}
