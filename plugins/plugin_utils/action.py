# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all action plugins of the collection share: arguments, the library's presence, errors in one sentence."""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible_collections.modak.deploy.plugins.plugin_utils.library import missing

try:
    from modak_deploy.documents import plain
    from modak_deploy.errors import ModakError, TargetError
    from modak_deploy.secret_values import Reader
    from modak_deploy.terminal import visible

    HAS_MODAK = True
except ImportError:
    HAS_MODAK = False

    class ModakError(Exception):  # type: ignore[no-redef]
        """Stands in where the library is absent, so that this file can still be imported."""


class ModakAction(ActionBase):
    """An action that runs on the controller, on the Python package modak_deploy."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    ARGUMENTS: dict[str, dict[str, Any]] = {}

    _no_connection = False
    """Whether the last attempt to use the connection failed because the host cannot be reached."""

    def __init_subclass__(cls) -> None:
        """Freeze what an action's file has imported: Ansible imports it once and then forks a process for each task.

        The documentation of ``gc.freeze`` recommends it before a fork, so that no collection in a child copies pages of
        the parent. The interpreter's end is faster besides: 0.02 instead of 0.25 s of processor time (Python 3.11).
        """
        super().__init_subclass__()
        gc.freeze()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the arguments, act, and turn the library's errors into the task's failure."""
        if self._task.async_val:
            raise AnsibleActionFail(
                "async is not supported: this action runs on the controller; to go on while a job runs, submit it with "
                "'wait: false' and wait for it later by modak.deploy.batch_job_wait"
            )
        result = super().run(tmp, task_vars)
        del tmp
        if not HAS_MODAK:
            raise AnsibleActionFail(missing())
        try:
            result.update(self.act(self._arguments(), task_vars or {}))
        except ModakError as error:
            diagnostics = [diagnostic.as_dict() for diagnostic in error.diagnostics]
            # Ansible rescues no host that is unreachable; whoever has to, sets this variable.
            fails = bool((task_vars or {}).get("modak_unreachable_fails")) or not isinstance(error, TargetError)
            state = "unreachable" if self._no_connection and not fails else "failed"
            result.update({state: True, "msg": visible(str(error)), "diagnostics": diagnostics})
        return _quiet(result) if self._task.no_log else result

    def show(self, text: str) -> None:
        """Show lines while the task still runs: on standard error where the callback writes JSON on standard output.

        Orchestrators such as xOpera read that JSON, and a line between would make it unreadable. What could move the
        cursor or forge another line is shown as an escape. With ``no_log`` nothing is shown: Ansible hides only what a
        task returns.
        """
        if not self._task.no_log:
            callback = str(constants.config.get_config_value("DEFAULT_STDOUT_CALLBACK"))
            self._display.display(visible(text), stderr="json" in callback)

    def warn(self, text: str) -> None:
        """Show a warning, unless the task has ``no_log``."""
        if not self._task.no_log:
            self._display.warning(text)

    def _arguments(self) -> dict[str, Any]:
        """Return the checked arguments, as ``validate_argument_spec`` of Ansible does, but of plain values.

        That copies each value with the tags that ansible-core 2.19 puts on it: 40 ms of processor time for one Plan.
        """
        given = {name: plain(value) for name, value in self._task.args.items()}
        checked = ArgumentSpecValidator(self.ARGUMENTS).validate(given)
        if errors := checked.errors.errors:
            start = f"Unsupported parameters for ({self._task.action}) module: "
            is_unsupported = isinstance(errors[0], UnsupportedError)
            raise AnsibleActionFail(f"{start if is_unsupported else ''}{errors[0].msg}", obj=self._task.args)
        return {**given, **checked.validated_parameters}

    def _reader(self, search: Sequence[Path], arguments: dict[str, Any]) -> Reader:
        """Return what reads the values of ``secret_environment``: variables, files, and commands where permitted."""
        return Reader(search, self._variable, commands=arguments["secret_commands"])

    def _variable(self, name: str) -> object:
        """Return the value of a variable as Ansible sees it, decrypted; KeyError where there is none."""
        if name not in self._templar.available_variables:
            raise KeyError(name)
        return self._templar.resolve_variable_expression(name)

    @abstractmethod
    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work and return what the task returns."""


def _quiet(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a task with ``no_log`` without what ansible-core 2.19 prints all the same.

    That is its warnings, and the message of a failure, of which the first line says why; the lines of a job's log that
    follow may have any of its values.
    """
    quiet = {key: value for key, value in result.items() if key != "warnings"}
    return {**quiet, "msg": str(result["msg"]).partition("\n")[0]} if "msg" in result else quiet
