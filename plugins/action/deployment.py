# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the description of a deployment and tell how to reach its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.hosts import LOCAL, host_vars
from ansible_collections.modak.deploy.plugins.plugin_utils.search import locator
from ansible_collections.modak.deploy.plugins.plugin_utils.variables import (
    SECTIONS,
    check_extra_variables,
    check_single_source,
    document_files,
)

try:
    from modak_deploy.diagnostics import Diagnostic, Location, Position
    from modak_deploy.documents import (
        expand,
        parse_deployment,
        parse_destination,
        parse_options,
        plain,
        read_description,
    )
    from modak_deploy.errors import InputError
    from modak_deploy.model.deployment import Deployment, Destination
    from modak_deploy.model.target import Target
    from modak_deploy.util.text import close_match, did_you_mean
except ImportError:
    pass  # ModakAction says so before anything here is used

DESTINATION = ("target", "job")
"""What is read where an image is brought and nothing is run."""
DEFAULTS = {"target": {"name": "localhost"}}
"""What the role sets where its user says nothing."""
OPTIONS = ("force", "record", "wait", "timeout_seconds", "results", "search_paths", "secret_commands")
"""What steers the playbooks; see modak_deploy.documents.RunOptions."""


class ActionModule(ModakAction):
    """modak.deploy.deployment."""

    ARGUMENTS = arguments_of("deployment")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self._sites: dict[Location, str] = {}
        """The hosts whose ``modak_site`` has given a value, by its location."""
        check_extra_variables(self._loader, arguments["variables"], arguments["playbook"])
        variables = {name: arguments[name] for name in OPTIONS}
        if arguments["documents"] is not None:
            sections, deployment, options = self._from_documents(arguments, variables, task_vars)
        else:
            sections, deployment = self._from_variables(arguments, task_vars)
            options = parse_options(variables)
        given = sections.get("other_targets") or []
        described = [sections.get("target") or {"name": "localhost"}, *given]
        hosts = [_inventory_host(target, task_vars) for target in described]
        targets = [deployment.target, *getattr(deployment, "other_targets", [])]
        ways = [host_vars(target) for target in targets]
        # A target that was chosen has been added to the inventory, and may be that of an earlier description.
        _check_ways(hosts, ways, task_vars if arguments["documents"] or arguments["variables"] else {})
        entries = [
            {
                "target": section,
                "host": host or LOCAL,
                "host_vars": {} if in_inventory else way,
                "created": target.is_created,
            }
            for section, (host, in_inventory), target, way in zip(described, hosts, targets, ways, strict=True)
        ]
        return {
            "changed": False,
            "deployment": deployment.model_dump(mode="json"),
            "sections": sections,
            "options": options.model_dump(mode="json"),
            **entries[0],
            "targets": entries,
        }

    def _from_documents(
        self, arguments: dict[str, Any], variables: Mapping[str, Any], task_vars: dict[str, Any]
    ) -> tuple[dict[str, Any], Deployment, Any]:
        """Read the documents as data: Ansible never renders anything in them as a template."""
        check_single_source(name for name in SECTIONS if arguments[name] and arguments[name] != DEFAULTS.get(name))
        files = document_files(arguments["documents"])
        description = read_description(*files)
        sections = {name: description.data[name] for name in SECTIONS if name in description.data}
        sections = _with_sites(sections, description.locate, description.origin)
        self._complete_all(sections, description.data, task_vars)
        with self._located():
            if any(location[-1] == "site" for location in self._sites):  # which no document names
                sections = _with_sites(sections, description.locate, description.origin)
            deployment, options = description.parse(sections)
        options = parse_options(variables, options)
        # The documents' own folders come after the folders that the user names, the last document's first.
        folders = [str(file.parent.absolute()) for file in reversed(files)]
        return sections, deployment, options.model_copy(update={"search_paths": [*options.search_paths, *folders]})

    def _from_variables(
        self, arguments: dict[str, Any], task_vars: dict[str, Any]
    ) -> tuple[dict[str, Any], Deployment | Destination]:
        image = arguments["image"] is not None
        read = DESTINATION if image else SECTIONS
        sections = {name: plain(arguments[name]) for name in read if arguments[name] is not None}
        if not sections.get("application") and not image:
            raise InputError(_no_application(arguments["variables"]))
        if not sections.get("other_targets"):
            sections.pop("other_targets", None)
        written = sections
        sections = _with_sites(sections, locator(SECTIONS), "the variables", image=image)
        self._complete_all(sections, written, task_vars)
        parse: Callable[..., Deployment | Destination] = parse_destination if image else parse_deployment
        if image:
            sections = {name: value for name, value in sections.items() if value}  # the role's own default is {}
        with self._located():
            return sections, parse(sections, origin="the variables", locate=locator(SECTIONS))

    def _complete_all(self, sections: dict[str, Any], written: Mapping[str, Any], task_vars: dict[str, Any]) -> None:
        """Complete each target from its host in the inventory, over whose ``modak_site`` a named site stands."""
        if "target" in sections:
            sections["target"] = self._completed(sections["target"], written.get("target"), task_vars, ("target",))
        if isinstance(others := sections.get("other_targets"), list):
            given = written["other_targets"]
            sections["other_targets"] = [
                self._completed(other, own, task_vars, ("other_targets", number))
                for number, (other, own) in enumerate(zip(others, given, strict=True))
            ]

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Have errors in what ``modak_site`` of a host says name the host: no document has it."""
        try:
            yield
        except InputError as error:
            raise error.mapped(self._moved) from None

    def _moved(self, diagnostic: Diagnostic) -> Diagnostic:
        for location, host in self._sites.items():
            if diagnostic.path[: len(location)] == location:
                path = ("modak_site", *diagnostic.path[len(location) - 1 :])
                return diagnostic.at(Position(_inventory(host)), path)
        return diagnostic

    def _completed(self, target: Any, written: Any, task_vars: dict[str, Any], location: Location) -> Any:
        host, in_inventory = _inventory_host(target, task_vars)
        if not in_inventory:
            return target
        site = _site(str(host), task_vars)
        name = written.get("site") if isinstance(written, dict) else written
        if site and isinstance(name, str):
            self.warn(
                f"the site '{name}' stands over modak_site of the host {host} in the inventory; keep one of the two"
            )
        self._sites |= {(*location, key): str(host) for key in site if key not in target}
        return {**site, **target}


def _with_sites(sections: dict[str, Any], locate: Any, origin: str, *, image: bool = False) -> dict[str, Any]:
    """Fill in the settings of the sites that targets name; an image's destination has no use for their catalogue."""
    expanded = expand(sections, locate, origin).data
    return {name: value for name, value in expanded.items() if name in sections or not (image and name == "request")}


def _inventory_host(target: Any, task_vars: dict[str, Any]) -> tuple[str | None, bool]:
    """Return the target's host where it names one, and whether the inventory has it."""
    host = target.get("host") if isinstance(target, dict) else None  # what is wrong is told when it is parsed
    return host, isinstance(host, str) and host in task_vars.get("groups", {}).get("all", [])


def _check_ways(
    hosts: Sequence[tuple[str | None, bool]], ways: Sequence[Mapping[str, Any]], task_vars: Mapping[str, Any]
) -> None:
    """Raise InputError where one host would be reached in two ways: Ansible has one set of variables for a name.

    One of them may be that of a playbook which ran before in the same run, and added the host.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for (host, in_inventory), way in zip(hosts, ways, strict=True):
        if host is None:
            continue
        if in_inventory:
            added = plain(task_vars["hostvars"][host].get("modak_reached")) if "hostvars" in task_vars else None
            if added is None:
                continue  # the inventory alone says how it is reached
            first.setdefault(host, added)
        if first.setdefault(host, way) != way:
            raise InputError(
                f"the host {host} is described twice in this run, with another user, port or key",
                key="target.host",
                hint="give each a name of its own in the inventory, with ansible_host",
            )


def _site(host: str, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Return what the inventory says of the host as a target."""
    site = plain(task_vars["hostvars"][host].get("modak_site", {}))
    if not isinstance(site, dict):
        raise InputError(f"modak_site of the host {host} in the inventory must be a mapping, as the section 'target'")
    keys = list(Target.model_fields)
    unknown = [
        Diagnostic(
            f"unknown key '{key}'", "unknown-key", ("modak_site",), _inventory(host), None, did_you_mean(key, keys)
        )
        for key in map(str, site)
        if key not in keys
    ]
    if unknown:
        raise InputError(unknown)
    return site


def _inventory(host: str) -> str:
    return f"the host {host} in the inventory"


def _no_application(variables: list[str]) -> str:
    others = [name for name in variables if not name.startswith("application")]  # those are the role's own
    misspelt = close_match("application", others, cutoff=0.8, prefix=20)
    if misspelt is not None:
        return f"The variable '{misspelt}' is unknown; did you mean 'application'?"
    return "The variable 'application' is required; describe what is to be run, as in -e deployment=deploy.yml"
