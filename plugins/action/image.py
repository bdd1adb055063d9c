# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a container image to the target of the task, or build it there, once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.job import JobAction, plan_of
from ansible_collections.modak.deploy.plugins.plugin_utils.results import results_folder
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders

try:
    from modak_deploy.deploy.image import image_of, open_images
    from modak_deploy.documents import check, plain
    from modak_deploy.errors import InputError
    from modak_deploy.images.ensure import Images, Wish
    from modak_deploy.images.pin import microarchitecture_of
    from modak_deploy.images.store import read_keys
    from modak_deploy.model.plan import Image, Plan
    from modak_deploy.model.request import JobOptions
    from modak_deploy.model.target import Target
    from modak_deploy.terminal import visible
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(JobAction):
    """modak.deploy.image."""

    ARGUMENTS = arguments_of("image")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if (arguments["plan"] is None) == (arguments["name"] is None):
            raise InputError("give 'plan' or 'name', and not both")
        plan = None if arguments["plan"] is None else plan_of(arguments["plan"])
        if plan is not None and (plan.chosen.image is None or plan.target.kind.pulls_images):
            return {"changed": False, "image": None}
        images = self._images(plan, arguments, task_vars)
        image = self._wanted(plan, images, arguments)
        wish = Wish(
            runtime=plan.chosen.runtime if plan else arguments["runtime"],
            compression=arguments["compression"],
            microarchitecture=microarchitecture_of(plan) if plan else arguments["microarchitecture"],
            keys=read_keys([*images.target.image_keys, *arguments["keys"]]),
            network=arguments["network"],
            timeout=arguments["timeout"] or None,
        )
        if arguments["state"] == "absent":
            return self._absent(images, image, wish)
        return self._present(images, image, wish)

    def _images(self, plan: Plan | None, arguments: dict[str, Any], task_vars: dict[str, Any]) -> Images:
        target, job = _where(plan, arguments, task_vars)
        return open_images(
            self.transport(task_vars),
            self.jobs(task_vars),
            target,
            job=job,
            locations=[*(plan.request.catalogue if plan else []), *arguments["catalogue"]],
            search=search_folders(arguments["search_paths"], task_vars),
            logs=results_folder(arguments["logs"], self._task, task_vars),
            notice=self.reporter.notice,
        )

    def _wanted(self, plan: Plan | None, images: Images, arguments: dict[str, Any]) -> Image:
        if plan is not None:
            return image_of(plan, images)
        return images.named(arguments["name"], arguments["microarchitecture"], arguments["digest"])

    def _absent(self, images: Images, image: Image, wish: Wish) -> dict[str, Any]:
        there = images.look(image, wish.runtime)
        if there and not self._task.check_mode:
            images.absent(image, wish.runtime)
        return {"changed": there, "image": None, "diff": _diff(image.reference if there else "", "")}

    def _present(self, images: Images, image: Image, wish: Wish) -> dict[str, Any]:
        reported = {"reference": image.reference, "digest": image.digest}
        if self._task.check_mode:
            missing = not images.look(image, wish.runtime)
            return {"changed": missing, "image": reported, "diff": _diff("", image.reference if missing else "")}
        result = asdict(images.present(image, wish))
        changed = result.pop("pulled")
        result.pop("seconds")
        return {
            "changed": changed,
            "image": {**reported, **result},
            "diff": _diff("", image.reference if changed else ""),
        }


def _where(plan: Plan | None, arguments: dict[str, Any], task_vars: dict[str, Any]) -> tuple[Target, JobOptions]:
    if plan is not None:
        return plan.target, plan.job
    host = str(task_vars.get("inventory_hostname", "target"))
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in host)
    described = plain(arguments["target"]) if arguments["target"] else {"name": name if name[:1].isalpha() else "host"}
    target = check(Target, described, origin="target")
    return target, check(JobOptions, plain(arguments["job"] or {}), origin="job")


def _diff(before: str, after: str) -> dict[str, str]:
    return {"before": f"{visible(before)}\n" if before else "", "after": f"{visible(after)}\n" if after else ""}
