# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what is created and deleted at a provider of instances; the role's tasks carry it out."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible.utils.collection_loader._collection_finder import _get_collection_metadata
from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.hosts import host_vars
from ansible_collections.modak.deploy.plugins.plugin_utils.transport import AnsibleTransport

try:
    from modak_deploy.documents import check, plain
    from modak_deploy.errors import InputError, TargetError
    from modak_deploy.model.cloud import Cloud
    from modak_deploy.model.plan import Plan
    from modak_deploy.model.target import Target
    from modak_deploy.providers import record, registry
    from modak_deploy.providers.base import cloud_of, identity_named
    from modak_deploy.providers.cloudinit import READY, user_data
    from modak_deploy.providers.decision import decide, to_release
    from modak_deploy.providers.resources import Listed, Listing, Resources
    from modak_deploy.shell import quote
    from modak_deploy.terminal import excerpt, visible
except ImportError:
    pass  # ModakAction says so before anything here is used

OF_A_TARGET = ("describe", "release", "forget")
"""What needs no Plan, but the target with its deployment's name."""
_PAUSE = 3.0
_NAME = 40
"""Characters of a node's name in the name of a deployment."""


class ActionModule(ModakAction):
    """modak.deploy.cloud."""

    ARGUMENTS = arguments_of("cloud")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if (arguments["plan"] is None) == (arguments["target"] is None):
            raise InputError("give either 'plan' or 'target'")
        step = arguments["step"]
        if arguments["plan"] is None:
            self._target = check(Target, plain(arguments["target"]), origin="target")
            if step == "identify":
                return {"changed": False, **self._identify(arguments)}
            if step not in OF_A_TARGET:
                raise InputError(f"the step '{step}' needs 'plan'")
        else:
            self._plan = check(Plan, plain(arguments["plan"]), origin="plan")
            self._target = self._plan.target
        cloud = cloud_of(self._target)
        self._provider = registry.get(cloud.provider)
        self._key = record.read_public_key(self._target) if self._target.is_created else ""
        self._resources = self._resources_of(cloud, has_plan=arguments["plan"] is not None)
        steps = {
            "describe": self._describe,
            "decide": self._decide,
            "begin": self._begin,
            "define": self._define,
            "judge": self._judge,
            "find": self._find,
            "interrupted": self._interrupted,
            "reach": self._reach,
            "await": self._await,
            "release": self._release,
            "forget": self._forget,
        }
        return {"changed": False, **steps[step](arguments)}

    def _identify(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the name of the deployment that the target's runs share; empty where nothing is created for them."""
        if not self._target.is_created:
            return {"deployment": ""}
        given = cloud_of(self._target).deployment
        return {"deployment": given or f"{arguments['name'][:_NAME] or 'instance'}-{secrets.token_hex(8)}"}

    def _resources_of(self, cloud: Cloud, *, has_plan: bool) -> Resources:
        if has_plan:
            return self._provider.describe(self._plan, self._key)
        if cloud.deployment is None:
            raise InputError("without a Plan the deployment's name is needed", key="target.cloud.deployment")
        return self._provider.belonging(self._target, identity_named("", self._target, self._key))

    def _describe(self, arguments: dict[str, Any]) -> dict[str, Any]:
        collection = self._provider.collection
        if collection is not None:
            check_collection(collection, f"target.cloud.provider: {self._provider.name}")
        return {
            "resources": self._resources.model_dump(mode="json"),
            "identity": self._resources.identity,
            "role": self._provider.role,
            "python": self._provider.python,
            "created": self._target.is_created,
            "summary": self._resources.summary(),
        }

    def _decide(self, arguments: dict[str, Any]) -> dict[str, Any]:
        instance = self._plan.instance
        identity = self._resources.identity
        if instance is None:
            raise InputError("the Plan chose no instance type; plan it again")
        decision = decide(
            self._listing(arguments),
            wanted=instance.chosen.label,
            permitted=[candidate.label for candidate in instance.candidates],
            pending=record.is_pending(identity, arguments["settle"]),
        )
        if decision.step == "refuse":
            raise InputError(decision.reason)
        if decision.step == "create" and self._task.check_mode:
            for line in self._resources.summary():
                self.show(f"would create {line}")
        kind = decision.instance.label if decision.instance is not None else ""
        return {**decision.model_dump(mode="json"), "instance_type": kind}

    def _begin(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            return {"user_data": "", "host_key": ""}
        private, public = record.begin(self._resources, run=self._plan.name, target=self._plan.target.name)
        runtime, service = self._plan.chosen.runtime, self._plan.application.service
        fronted = service is not None and service.front == "haproxy"
        text = user_data(
            public_key=self._key,
            host_key=private,
            host_public_key=public,
            lease=self._resources.lease or 0,
            packages=[*([] if runtime == "native" else [runtime]), *(["haproxy", "curl"] if fronted else [])],
        )
        return {"changed": True, "user_data": text, "host_key": public}

    def _define(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the documents that the provider's tasks create the resources by."""
        listed = plain(arguments["listed"])
        return {"definitions": dict(self._provider.definitions(self._resources, listed, arguments["host_key"]))}

    def _judge(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Tell a lack of capacity, for which there is another zone or a next candidate, from other errors."""
        message = " ".join(arguments["message"].split())
        if self._plan.instance is None or not self._provider.has_no_capacity(message):
            raise InputError(f"the instance cannot be created: {message}")
        record.refuse(self._resources.identity)
        name, zone = self._plan.instance.chosen.label, arguments["zone"]
        zones = self._resources.instance.zones if self._resources.instance is not None else []
        self.show(f"{name}{f' in {zones[zone]}' if zone < len(zones) else ''}: {excerpt(message)}")
        if zone + 1 < len(zones):
            return {"instance_type": name, "reason": "", "zone": zone + 1}
        if not self._plan.instance.candidates:
            raise InputError(
                f"no instance type that can do what was asked can be had now; the last was {name}: {message}"
            )
        return {"instance_type": name, "reason": visible(excerpt(message)), "zone": 0}

    def _find(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return whether an instance runs, whatever its type."""
        return {"running": _running(self._listing(arguments)) is not None}

    def _interrupted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return whether the provider has taken this very instance back: another one's job is no affair of ours."""
        limits = cloud_of(self._target).spot
        return {
            "interrupted": arguments["instance"] in self._listing(arguments).interrupted,
            "restarts": limits.restarts if limits is not None else 0,
        }

    def _reach(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return how the running instance is reached, its host key checked."""
        identity = self._resources.identity
        instance = _running(self._listing(arguments))
        if instance is None:
            raise InputError(f"no running instance of {identity} found")
        hosts = record.known_hosts(identity, instance)
        update = {"host": instance.address, "known_hosts": str(hosts)}
        reached = host_vars(self._plan.target.model_copy(update=update))
        return {"host": identity, "host_vars": reached, "instance": instance.model_dump(mode="json")}

    def _await(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Wait until the task's host, which is the instance, answers and has come to the end of cloud-init."""
        transport = AnsibleTransport(self, self._resources.identity)
        end = time.monotonic() + arguments["timeout"]
        while True:
            try:
                done = transport.run(f"test -e {quote(READY)}", timeout=30)
                reason = "cloud-init has not ended"
                if done.returncode == 0:
                    return {}
            except TargetError as error:
                reason = str(error)
            if time.monotonic() > end:
                raise TargetError(f"the instance is not ready after {arguments['timeout']:g} s: {reason}")
            time.sleep(_PAUSE)

    def _release(self, arguments: dict[str, Any]) -> dict[str, Any]:
        listing, pending = self._listing(arguments), record.is_pending(self._resources.identity, arguments["settle"])
        instances, groups, templates = to_release(listing)
        if self._task.check_mode:
            for name in [*instances, *groups, *templates]:
                self.show(f"would delete {name}")
        released = {"instances": list(instances), "groups": list(groups), "templates": list(templates)}
        return {**released, "pending": pending and not instances}

    def _forget(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"changed": not self._task.check_mode and record.forget(self._resources.identity)}

    def _listing(self, arguments: dict[str, Any]) -> Any:
        return self._provider.listing(plain(arguments["listed"]), self._resources.identity)


def _running(listing: Listing) -> Listed | None:
    """Return the oldest instance that runs and has an address; it is the one that counts."""
    running = (item for item in listing.instances if item.state == "running" and item.address is not None)
    return min(running, key=lambda instance: (instance.launched, instance.id), default=None)


def check_collection(name: str, key: str) -> None:
    """Raise InputError with the command that installs it where an Ansible collection is not installed."""
    try:
        _get_collection_metadata(name)
    except ValueError:
        raise InputError(
            f"{key}: the Ansible collection {name} is not installed; run: ansible-galaxy collection install {name}"
        ) from None
