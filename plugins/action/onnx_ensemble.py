# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert trained models to a bundle of ONNX files on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.modak.deploy.plugins.plugin_utils.action import ModakAction
from ansible_collections.modak.deploy.plugins.plugin_utils.arguments import arguments_of
from ansible_collections.modak.deploy.plugins.plugin_utils.search import search_folders

try:
    from modak_deploy.documents import plain
    from modak_deploy.errors import InputError
    from modak_deploy.onnx.bundle import Bundle
    from modak_deploy.onnx.ensure import ensure_bundle, remove_bundle, request_of
    from modak_deploy.paths import expanded
except ImportError:
    pass  # ModakAction says so before anything here is used


class ActionModule(ModakAction):
    """modak.deploy.onnx_ensemble."""

    ARGUMENTS = arguments_of("onnx_ensemble")

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        folder = expanded(arguments["bundle"]).absolute()
        if arguments["state"] == "absent":
            return {"changed": remove_bundle(folder, check_mode=self._task.check_mode), "bundle": str(folder)}
        if (arguments["document"] is None) == (arguments["request"] is None):
            raise InputError("exactly one of 'document' and 'request' is required")
        given = Path(arguments["document"]) if arguments["document"] is not None else plain(arguments["request"])
        request = request_of(given, search_folders(arguments["search_paths"], task_vars))
        ensured = ensure_bundle(
            request,
            folder,
            check_mode=self._task.check_mode,
            force=arguments["force"],
            jobs=arguments["jobs"],
            report=self.show,
        )
        result = {"changed": ensured.changed, "reason": ensured.reason, "bundle": str(folder), "models": []}
        return result if ensured.bundle is None else {**result, **_described(ensured.bundle)}


def _described(bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    graph = manifest.ensemble or manifest.models[0].graph
    single = manifest.ensemble is not None or len(manifest.models) == 1
    return {
        "models": [
            {"name": model.name, "framework": model.origin.framework, "validation": model.validation.status}
            for model in manifest.models
        ],
        "rule": manifest.combination.rule,
        "inputs": [str(spec) for spec in graph.inputs] if single else [],
        "outputs": [str(spec) for spec in graph.outputs] if single else [],
    }
