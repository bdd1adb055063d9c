# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of deployment documents and blueprints as hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: targets
short_description: The targets of deployment documents and blueprints as hosts
version_added: "0.1.0"
description:
  - Each target that a document or a blueprint names becomes a host, with the variables by which Ansible reaches it.
  - What the document says of the target besides is the host's variable C(modak_site), which deployments to that host
    start from.
  - The hosts are in the group O(group) and in one group for each type, such as C(modak_slurm).
author: the modak authors (@modak)
options:
  plugin:
    description: The name of this plugin, in a file whose name ends in C(modak.yml) or C(modak.yaml).
    type: str
    required: true
    choices: [modak.deploy.targets]
  files:
    description: Deployment documents and TOSCA blueprints, relative to the inventory file.
    type: list
    elements: str
    required: true
  inputs:
    description: Values of the blueprints' inputs.
    type: dict
    default: {}
  group:
    description: Group of all targets; the groups of the types begin with its name.
    type: str
    default: modak
"""

EXAMPLES = r"""
# targets.modak.yml
plugin: modak.deploy.targets
files:
  - cluster.yml
  - blueprints/digits-slurm.yaml
inputs:
  host: login.example.org
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible_collections.modak.deploy.plugins.plugin_utils.hosts import LOCAL, REACHING, VARIABLES, host_vars
from ansible_collections.modak.deploy.plugins.plugin_utils.library import missing

try:
    from modak_deploy.documents import plain
    from modak_deploy.errors import ModakError
    from modak_deploy.inventory import load_targets
    from modak_deploy.model.target import Target
    from modak_deploy.terminal import visible

    HAS_MODAK = True
except ImportError:
    HAS_MODAK = False


class InventoryModule(BaseInventoryPlugin):
    """modak.deploy.targets."""

    NAME = "modak.deploy.targets"

    def verify_file(self, path: str) -> bool:
        """Tell whether the file is for this plugin, by its name."""
        return super().verify_file(path) and path.endswith(("modak.yml", "modak.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Add the hosts; AnsibleParserError with the sentence of what is wrong."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        if not HAS_MODAK:
            raise AnsibleParserError(missing())
        try:
            for file in self.get_option("files"):
                for target in load_targets(Path(path).parent / file, plain(self.get_option("inputs"))):
                    self._add(target, file)
        except ModakError as error:
            raise AnsibleParserError(visible(str(error))) from None

    def _add(self, target: Target, file: str) -> None:
        name = target.host or LOCAL
        site = target.model_dump(mode="json", exclude_defaults=True, exclude=set(REACHING))
        variables = {**host_vars(target), "modak_site": site}
        host = self.inventory.get_host(name)
        before = {} if host is None else host.get_vars()
        if "modak_site" in before and any(before.get(key) != variables.get(key) for key in (*VARIABLES, "modak_site")):
            raise AnsibleParserError(f"{file}: the host {name} is another target in a file before: describe it once")
        group = self.get_option("group")
        for parent in (group, f"{group}_{target.type}"):
            self.inventory.add_group(parent)
        self.inventory.add_child(group, f"{group}_{target.type}")
        self.inventory.add_host(name, group=f"{group}_{target.type}")
        for key, value in variables.items():
            self.inventory.set_variable(name, key, value)
