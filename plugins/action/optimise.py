# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how to run an application on the target of the task."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders
from ansible_collections.modak.deploy.plugins.plugin_utils.transport import AnsibleTransport
from ansible_collections.modak.deploy.plugins.plugin_utils.variables import document_files

try:
    from modak_deploy.discovery.asking import ask, script_for
    from modak_deploy.documents import check, parse_deployment, plain, read_description
    from modak_deploy.errors import InfeasibleError, InputError, ModakError, OptionError, TargetError
    from modak_deploy.kept import Kept, OutdatedPlanError, keep_plan, kept_plan
    from modak_deploy.model.deployment import Deployment
    from modak_deploy.model.plan import Plan, Unplanned
    from modak_deploy.model.target import Target
    from modak_deploy.optimiser.changes import with_secrets
    from modak_deploy.optimiser.instances import Limits
    from modak_deploy.optimiser.table import render
    from modak_deploy.planning import (
        check_deployed,
        lacks_digest,
        plan_deployment,
        reconsider,
        rehearse,
        still_holds,
        unplanned,
        with_image,
    )
    from modak_deploy.secret_values import hashes_of
    from modak_deploy.terminal import visible

    # Ansible imports this file once and forks a process for each host: what is read here is in all of them, and what is
    # read there is read for each host, 50 of the 125 ms of processor time that a host took.
    rehearse()
except ImportError:
    pass  # ModakAction says so before anything here is used

SECTIONS = ("application", "target", "request", "job")


class ActionModule(ModakAction):
    """modak.deploy.optimise."""

    ARGUMENTS = arguments_of("optimise")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if arguments["plan"] is not None:
            return self._elsewhere(arguments, task_vars)
        if arguments["application"] is None:
            raise InputError("missing required arguments: application")
        sections = {name: plain(arguments[name]) for name in SECTIONS if arguments[name] is not None}
        if arguments["other_targets"]:
            if arguments["answers"] is None:
                raise InputError("'other_targets' needs 'answers'", hint="get them with 'ask' on each target's host")
            sections["other_targets"] = plain(arguments["other_targets"])
        deployment = parse_deployment(sections, origin="the variables")
        results = self._results(arguments, task_vars, deployment.run_name)
        kept = self._read_kept(results, deployment.run_name, arguments)
        if arguments["deployed"] and kept is not None:
            deployed = check_deployed(kept, deployment)
            return _answer("") if arguments["ask"] else {**_returned(deployed, changed=False), "kept": True}
        if arguments["ask"]:
            return self._ask(deployment, task_vars)
        try:
            plan = self._plan(deployment, kept, arguments, task_vars)
        except (InfeasibleError, InputError, TargetError) as error:
            if not arguments["part"] or not isinstance(error, InfeasibleError | OptionError):
                raise _located(error, arguments["documents"]) from None
            search = search_folders(arguments["search_paths"], task_vars)
            return _refused(unplanned(deployment, search=search, reason=_reason(error, arguments["documents"])))
        if arguments["answers"] is not None and lacks_digest(plan):
            return _returned(plan, changed=False)  # it is completed on the chosen target's host, and kept there
        return self._kept(plan, kept, None if arguments["deployed"] else results, arguments)

    def _ask(self, deployment: Deployment, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return what the task's host says of itself, for a decision that is made elsewhere."""
        transport = AnsibleTransport(self, self._host(task_vars))
        script = script_for(deployment, _python_here(deployment.target, task_vars))
        return _answer(ask(transport, script, deployment.target.name))

    def _read_kept(self, results: Path | None, name: str, arguments: dict[str, Any]) -> Kept | None:
        """Return the Plan that was deployed, and say so where it was changed since and is not used."""
        if results is None or arguments["force"]:
            return None
        try:
            kept = kept_plan(results, name)
        except OutdatedPlanError as error:
            self.show(f"{str(error).partition(';')[0]}; it is not used, and the plan is made again")
            return None
        if kept is not None and kept.own is False and not arguments["deployed"]:
            changed = "the file was changed after modak wrote it; it is not used, and the plan is made again"
            self.show(f"{kept.path}: {changed}")
        return kept

    def _kept(self, plan: Plan, kept: Kept | None, results: Path | None, arguments: dict[str, Any]) -> dict[str, Any]:
        """Show the Plan, and keep it unless it is a part of what is kept already."""
        if arguments["show"]:
            self.show(render(plan))
        changed = False
        is_covered = arguments["part"] and kept is not None and plan.questions() < kept.plan.questions()
        if results and not is_covered:
            before = None if kept is None else kept.plan
            changed = plan != before if self._task.check_mode else keep_plan(plan, results)
        return _returned(plan, changed=changed)

    def _elsewhere(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the better of the Plan that was given and one for the task's host."""
        if arguments["target"] is None or arguments["application"] is not None:
            raise InputError("with 'plan' the option 'target' is required and 'application' is not supported")
        given = check(_model(arguments["plan"]), plain(arguments["plan"]), origin="plan")
        target = check(Target, plain(arguments["target"]), origin="target")
        name = Deployment(application=given.application, job=given.job).run_name
        results = self._results(arguments, task_vars, name)
        kept = self._read_kept(results, name, arguments)
        search = search_folders(arguments["search_paths"], task_vars)
        transport = AnsibleTransport(self, self._host(task_vars))
        if isinstance(given, Plan) and given.target == target:
            plan = self._with_image(given, kept, transport, search)
            return self._kept(plan, kept, None if arguments["deployed"] else results, arguments)
        both = reconsider(
            given,
            target,
            transport,
            search=search,
            now=datetime.now(timezone.utc),
            default_python=task_vars.get("ansible_playbook_python"),
        )
        if isinstance(both, Unplanned):
            return _refused(both)
        plan = still_holds(with_secrets(both, hashes_of(both, self._reader(search, arguments))), kept)
        if plan.target == target:
            plan = self._with_image(plan, kept, transport, search)
        return self._kept(plan, kept, None if arguments["deployed"] else results, arguments)

    def _results(self, arguments: dict[str, Any], task_vars: dict[str, Any], name: str) -> Path | None:
        return results_folder(arguments["results"], self._task, task_vars, name) if arguments["results"] else None

    def _host(self, task_vars: dict[str, Any]) -> str:
        """Return the name of the host that is asked, to which the task may be delegated."""
        return str(self._task.delegate_to or task_vars["inventory_hostname"])

    def _plan(
        self, deployment: Deployment, kept: Kept | None, arguments: dict[str, Any], task_vars: dict[str, Any]
    ) -> Plan:
        search = search_folders(arguments["search_paths"], task_vars)
        transport = AnsibleTransport(self, self._host(task_vars))
        answers = arguments["answers"]
        limits = Limits(only=arguments["instance_type"], unavailable=plain(arguments["unavailable_types"]))
        plan = plan_deployment(
            deployment,
            transport,
            search=search,
            now=datetime.now(timezone.utc),
            default_python=_python_here(deployment.target, task_vars),
            inquiries=_inquiries(deployment, answers) if answers is not None else None,
            limits=limits,
            refusal=lambda error: _reason(error, arguments["documents"]),
            notice=self.show,
            deployed=arguments["deployed"],
        )
        plan = still_holds(with_secrets(plan, hashes_of(plan, self._reader(search, arguments))), kept)
        return plan if answers is not None else self._with_image(plan, kept, transport, search)

    def _with_image(self, plan: Plan, kept: Kept | None, transport: AnsibleTransport, search: list[Path]) -> Plan:
        """Return the Plan with its image's digest, which may be the one of the Plan that lies there."""
        return still_holds(with_image(plan, transport, search=search), kept)


def _python_here(target: Target, task_vars: dict[str, Any]) -> str | None:
    """Return the application's Python where this machine is the target and names none."""
    return task_vars.get("ansible_playbook_python") if target.host is None else None


def _answer(text: str) -> dict[str, Any]:
    # Encoded, so that nothing in it is ever a template, and no callback prints it in full.
    return {"changed": False, "answer": b64encode(text.encode("utf-8", "surrogateescape")).decode()}


def _inquiries(deployment: Deployment, answers: list[str]) -> dict[str, Callable[[], str]]:
    """Return how each target that could be asked is asked: it has answered already."""
    if len(answers) != len(deployment.targets):
        raise InputError(f"'answers' has {len(answers)} items for {len(deployment.targets)} targets")
    pairs = zip(deployment.targets, answers, strict=True)
    return {target.name: partial(_decoded, answer) for target, answer in pairs if target.is_asked}


def _decoded(answer: str) -> str:
    try:
        return b64decode(answer, validate=True).decode("utf-8", "surrogateescape")
    except ValueError:
        raise InputError("an item of 'answers' is not Base64; give what the option 'ask' returned") from None


def _located(error: ModakError, documents: Any) -> ModakError:
    """Return the error with the file and the line of its key, where documents are named."""
    return error.located(read_description(*document_files(documents)).locate) if documents else error


def _reason(error: InfeasibleError | OptionError, documents: Any) -> str:
    """Return why a target is refused, as a Plan keeps it; an option that it does not support has its position."""
    return str(_located(error, documents) if isinstance(error, OptionError) else error)


def _model(given: dict[str, Any]) -> type[Plan] | type[Unplanned]:
    """Return what was handed over: a Plan, or what could not be planned."""
    return Plan if "chosen" in given else Unplanned


def _refused(what: Unplanned) -> dict[str, Any]:
    others = [f"on {other.target.name}: {other.reason}" for other in what.other_targets]
    reasons = [f"on {what.target.name}: {what.reason}", *others] if others else [what.reason]
    return {
        "changed": False,
        "plan": {},
        "unplanned": what.model_dump(mode="json"),
        "reason": visible("; ".join(reasons)),
        "table": [visible(reason) for reason in reasons],
    }


def _returned(plan: Plan, *, changed: bool) -> dict[str, Any]:
    return {
        "changed": changed,
        "plan": plan.model_dump(mode="json", by_alias=True),
        "tag": plan.tag(),
        "table": visible(render(plan)).split("\n"),
    }
